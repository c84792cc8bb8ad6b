"""Questions of pages whose script would be too long with them: exercises as data, keys from the weights."""
