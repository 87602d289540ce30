"""Kim et al., SMPFRAME, CMU-PDL-15-103, 2015."""
