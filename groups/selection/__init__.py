"""The best model of every group: searches over options, judged by rows held out."""
