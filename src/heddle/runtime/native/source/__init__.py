"""Sources of the native library in the systems language. They are imported when the library's text is made
anew, never by a program that runs models."""
