"""What is counted of each step inside the training process."""
