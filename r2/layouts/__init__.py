"""Where each kind of state plane blob lies in a bucket."""
