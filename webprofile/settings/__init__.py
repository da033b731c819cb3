"""base holds everything; dev, test and prod are thin overlays."""
