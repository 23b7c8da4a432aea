"""What is drawn when curves are: dots, scales, places on an axis and marks. Pure: no widget, no clock."""
