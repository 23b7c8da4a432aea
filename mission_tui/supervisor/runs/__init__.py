"""What stands on disk: run directories found and read again, journals, and what others on this host wrote down."""
