"""What is predicted, and how well: losses, and figures as sums that add up over clients."""
