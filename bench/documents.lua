-- Documents: what JSON patches cost, to make them and to apply them.

return {
  { name = "1 element before 1,000: diff", measure = "documents",
    against = "a copy of all", base = "copy", ours = "diff", unit = "us" },
  { name = "10 of 10,000 leaves: diff", measure = "documents",
    against = "a walk that compares", base = "compare", ours = "diff_few",
    unit = "us", aim = 3 },
  { name = "a sorted list of 1,000: diff", measure = "documents",
    against = "table.sort", base = "sort", ours = "diff_sorted", unit = "us",
    aim = 20 },
  { name = "2 of 4 fields in 1,600 rows: diff", measure = "documents",
    against = "a copy of all", base = "copy_rows", ours = "diff_rows",
    unit = "us" },
  { name = "a patch of one in 20,000 rows", measure = "documents",
    against = "of one in 100", base = "patch_few", ours = "patch_many",
    unit = "us", aim = 1.5 },
  { name = "a patch of one in n rows", grows = "patch_one", aim = 2 },
  { name = "a patch of n at the front, each", grows = "patch_front", aim = 5 },
  { name = "... anywhere in n, each", grows = "patch_anywhere", aim = 5 },
  { name = "diff of n rows, 10 differ, a row", grows = "diff_few", aim = 5 },
  { name = "... one more in front, a row", grows = "diff_front", aim = 5 },
}
