"""The proof for all shapes: both sides as guarded sums of products over symbolic sizes, compared term by term."""
