"""Learning over groups (Kingpin): a simulated cluster, its calibration, timetables."""
