rockspec_format = "3.0"
package = "moonwatch"
version = "scm-1"
source = { url = "git+file://." } -- `make rock` puts the folder's path there
description = {
  summary = "Watches, records and undoes what happens to Lua's objects",
  detailed = [[
    Watch tables and userdata, deep ones too; transactions, undo and redo;
    weak identity, generations, hierarchies and traces, by a C engine that C
    programs can share.]],
  license = "MIT",
  labels = { "weak", "identity", "generation", "tracking", "tracing" },
}
supported_platforms = { "unix" }
dependencies = { "lua >= 5.4, < 5.6" } -- from 5.4.4 on
external_dependencies = {
  KLIB = {}, -- khash.h there, else <khash.h> or <htslib/khash.h> anywhere
}
-- One command compiles into the rock, so nothing is left among the sources.
build = {
  type = "make",
  build_pass = false,
  install_target = "install-rock",
  install_variables = {
    CC = "$(CC)",
    CFLAGS = "$(CFLAGS)",
    LIBFLAG = "$(LIBFLAG)",
    LUA_INCDIR = "$(LUA_INCDIR)",
    KLIB = "$(KLIB_INCDIR)",
    LIBDIR = "$(LIBDIR)",
    LUADIR = "$(LUADIR)",
  },
  copy_directories = { "types" },
}
test = { type = "command", command = "make test" }
