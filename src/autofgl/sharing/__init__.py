"""How clients learn together: a module or folder for each way, client and server side by side."""
