"""What one GPU can show of numamicro: are its kernels right, and how do others fare beside it."""
