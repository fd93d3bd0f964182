std = "lua54"
max_line_length = 80
files["spec"].std = "+busted"
exclude_files = { "build" }
files["types"] = { unused = false, redefined = false, max_line_length = false }
