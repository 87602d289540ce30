"""The subcommands of `tuskml`, one file each; `cli.py` puts them together."""
