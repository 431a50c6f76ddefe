"""The command line `rewright`: one module per command, loaded when the command runs."""
