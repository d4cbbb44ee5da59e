"""The methods: flat configuration and modeling files, which are also Hub remote code."""
