"""What islands do, who runs them, what they leave, and the verdict on them."""
