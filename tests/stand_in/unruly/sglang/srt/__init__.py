"""As in SGLang: where its arguments are parsed."""
