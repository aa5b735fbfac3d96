/* The sum of each of LANES vectors, as one vector: a tree that adds all of them at once.
 *
 * Numbers of two vectors are taken by turns, then pairs, fours and eights of them, and at each level
 * one half is added to the other.
 */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLES
#endif
#endif

#if defined(SHUFFLES) && LANES == 16
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define BY_ONE(a, b)                                                                              \
    (MIX(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +                      \
     MIX(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31))
#define BY_TWO(a, b)                                                                              \
    (MIX(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +                      \
     MIX(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31))
#define BY_FOUR(a, b)                                                                             \
    (MIX(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) +                      \
     MIX(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31))
#define BY_EIGHT(a, b)                                                                            \
    (MIX(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +                        \
     MIX(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))
INLINE lanes sum_each(const lanes *x) {
    lanes y[4];
    for (int i = 0; i < 4; i++)
        y[i] = BY_TWO(BY_ONE(x[4 * i], x[4 * i + 1]), BY_ONE(x[4 * i + 2], x[4 * i + 3]));
    return BY_EIGHT(BY_FOUR(y[0], y[1]), BY_FOUR(y[2], y[3]));
}
#elif defined(SHUFFLES)
#define BY_ONE(a, b)                                                                              \
    (__builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13) +                                    \
     __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15))
#define BY_TWO(a, b)                                                                              \
    (__builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +                                    \
     __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15))
#define BY_FOUR(a, b)                                                                             \
    (__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +                                    \
     __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15))
INLINE lanes sum_each(const lanes *x) {
    lanes y[2];
    for (int i = 0; i < 2; i++)
        y[i] = BY_TWO(BY_ONE(x[4 * i], x[4 * i + 1]), BY_ONE(x[4 * i + 2], x[4 * i + 3]));
    return BY_FOUR(y[0], y[1]);
}
#else
INLINE lanes sum_each(const lanes *x) {
    lanes sums;
    for (int i = 0; i < LANES; i++) {
        float sum = 0;
        for (int j = 0; j < LANES; j++) sum += x[i][j];
        sums[i] = sum;
    }
    return sums;
}
#endif
