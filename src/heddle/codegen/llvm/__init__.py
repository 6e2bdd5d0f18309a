"""LLVM IR text from lowered loop functions, and LLVM itself."""
