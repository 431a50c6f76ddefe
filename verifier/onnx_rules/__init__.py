"""Rules of onnxscript's rewriter: models that a rule's pattern matches, rewritten by the rule itself, compared with the originals."""
