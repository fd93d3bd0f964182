# moonwatch: settings first; any of them can be given on the command line.

LUA        = lua5.4
LUA_INCDIR = $(firstword $(wildcard $(foreach i,/usr/include /usr/local/include,$i/lua$(LUA_VERSION) $i)))
LUA_LIB    = -llua$(LUA_VERSION)
LUAROCKS   = luarocks --lua-version $(LUA_VERSION)
CC         = gcc
CXX        = g++
AR         = ar
RUN        =# runs a program that CC has made: qemu-s390x, wine, node...
STATIC     =# set: tests run in a program with Lua and the library inside
CFLAGS     = -O2 -g
WARN       = -Wall -Wextra -Wshadow -Wconversion
WARN_C     = $(WARN) -std=c11 -Wstrict-prototypes
LIBFLAG    = -shared
LEAN       = $(if $(findstring gcc,$(CC)),$(if $(WINDOWS),,$(SMALL)))# empty for a Lua that is C++ inside
KLIB       =# a klib checkout to take khash.h from, instead of the system's
SHARE      = /usr/share/lua/5.4# busted, where LUA does not look there itself
PREFIX     = /usr/local
DESTDIR    =
BUILD      = build
SANITIZE   =# set by `make asan`
SECONDS    = 60# how long `make fuzz` looks
PROGRAMS   = 10000# how many `make soak-lost` runs in each mode
BROWSER    = chromium

# What follows is derived.

TARGET := $(shell $(CC) -dumpmachine 2>/dev/null)
BUILD_LUA   = $(if $(RUN),lua5.4,$(LUA))# runs where make runs
LUA_VERSION = $(or $(HAS_LUA),5.4)
HAS_LUA    := $(shell $(RUN) $(LUA) -e 'io.write(_VERSION:sub(-3))' 2>/dev/null)
WINDOWS     = $(findstring mingw,$(TARGET))
EXE         = $(if $(WINDOWS),.exe,$(if $(findstring emscripten,$(TARGET)),.js))
SO          = $(if $(WINDOWS),dll,so)
PIC         = $(if $(WINDOWS),,-fPIC)
LINK        = $(if $(WINDOWS),$(LUA_LIB))# what a shared library has to name

VERSION = $(shell sed -n 's/^.define MW_VERSION_[MP][A-Z]* //p' engine/moonwatch.h | paste -sd.)
EXPORT  = $(if $(WINDOWS),,__attribute__((visibility("default")))) extern
LUA_FILES = $(shell find lua -name '*.lua')
COMMAND_FILES = $(shell find command/moonwatch -name '*.lua')
ENGINE  = $(wildcard engine/*.c)
BINDING = $(wildcard engine/bind/*/*.c)
HEADERS = $(wildcard engine/*.h engine/bind/*/*.h spec/support/*.h spec/engine/*.h)
CORE    = $(BUILD)/moonwatch/core.$(SO)
ENTRIES = $(BUILD)/entries/moonwatch/core.so
COVERED = $(BUILD)/covered/moonwatch/core.so
INCLUDE = $(if $(KLIB),-I$(KLIB)) -I$(LUA_INCDIR)
COMPILE = $(CC) $(WARN_C) $(CFLAGS) $(SANITIZE) $(INCLUDE)
HIDDEN  = -fvisibility=hidden# but for what MW_MODULE marks
# Smaller by a quarter, and no slower: without the tables by which C++ unwinds
# frames, space before functions and the targets of jumps, copies of functions
# that are not declared inline, and functions that nobody calls.
SMALL   = -fno-asynchronous-unwind-tables -falign-functions=1 -falign-jumps=1 -falign-loops=1 \
          -falign-labels=1 -fno-inline-functions \
          -ffunction-sections -fdata-sections -Wl,--gc-sections
TINY    = -DMWI_MAXSLOT=4000 -DMWI_MAXAGE=100000 -DMWI_MAXCLOCK=20
CHECKED = $(BUILD)/test/checked/moonwatch/core.so
PROGRAM = $(BUILD)/test/lua$(EXE)
TESTS   = $(BUILD)/test/engine$(EXE) $(BUILD)/test/faults$(EXE) \
          $(if $(STATIC),$(PROGRAM),$(CORE) $(BUILD)/test/support.$(SO))

export LUA_PATH  = $(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;$(CURDIR)/command/?.lua;;$(SHARE)/?.lua;$(SHARE)/?/init.lua
export LUA_CPATH = $(CURDIR)/$(BUILD)/?.$(SO);;
export PWD       = $(CURDIR)
export BUILD CC LUAROCKS RUN EXE SO STATIC LUA_INCDIR LUA_LIB
RUN_LUA          = $(strip $(RUN) $(if $(STATIC),$(CURDIR)/$(PROGRAM) $(VALUES),$(LUA)))
VALUES           = LUA_PATH='$(LUA_PATH)' PWD='$(PWD)' BUILD='$(BUILD)' SO='$(SO)'

all: build-deps $(if $(STATIC),$(PROGRAM),$(CORE))

run: all
	@$(RUN_LUA) examples/story.lua

test: test-deps all $(TESTS)
	@LUA="$(RUN_LUA)" $(BUILD_LUA) spec/support/suites.lua

# Longer: more random worlds, each allocation failing, and the specs while
# garbage is collected every few instructions.
soak: test-deps all $(TESTS) $(CHECKED)
	@SOAK=20 ROUNDS=200000 LUA="$(RUN_LUA)" $(BUILD_LUA) spec/support/suites.lua

# What takes minutes: dist/, install, cmake.
test-install: test-deps install-deps all $(TESTS)
	@SLOW=1 LUA="$(RUN_LUA)" $(BUILD_LUA) spec/support/suites.lua

# The engine's tests by each compiler that is here, for its platform.
test-platforms:
	@TINY='$(TINY)' $(BUILD_LUA) spec/support/platforms.lua

test-browser: all browser-deps
	@$(LUA) spec/support/browser.lua

bench: all $(BUILD)/bench/floor.so
	@LUA="$(RUN_LUA)" $(RUN_LUA) bench/run.lua $(BENCH)

# The functions that a write enters; WAYS="guard flag" names them.
entries: build-deps $(ENTRIES) $(BUILD)/bench/floor.so
	@LUA_CPATH="$(BUILD)/entries/?.so;$(LUA_CPATH)" $(RUN_LUA) bench/entries.lua $(ENTRIES) $(WAYS)

# What the library weighs; `make lint` fails above the limits of tools/budgets.lua.
weight: build-deps $(CORE) $(ENTRIES) $(COVERED) $(BUILD)/bench/floor.so
	@COVERED=$(BUILD)/covered SIZED=$(CORE) $(LUA) tools/weight.lua

# The instructions of a write; ROWS="key flag" chooses some.
callgrind: valgrind-deps all $(BUILD)/bench/floor.so
	@LUA="$(RUN_LUA)" $(RUN_LUA) bench/callgrind.lua $(ROWS)

asan:
	@$(MAKE) --no-print-directory test BUILD=build/asan CFLAGS="-O1 -g" \
	  SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined"

# Random programs that lose coroutines and handles, in both modes; freed memory
# stays apart, so that its use is seen.
soak-lost:
	@SUITES=specs SPECS=spec/random_lost_spec.lua SOAK=$$(($(PROGRAMS) / 200)) \
	  ASAN_OPTIONS=detect_leaks=0 $(MAKE) --no-print-directory asan

fuzz: all $(BUILD)/test/fuzz
	$(BUILD)/test/fuzz -max_total_time=$(SECONDS) -rss_limit_mb=4096 $(BUILD)/corpus spec/corpus

# What is made from docs/reference.lua: sections of the pages, and the types.
reference: lua-deps
	@$(LUA) docs/make/fill.lua

docs: reference
	@$(LUA) docs/make/site.lua $(BUILD)/docs

lint: test-deps lint-deps
	@$(LUA) spec/support/lint.lua

# The engine and the binding as one file, and the Lua files as another; what
# needs neither this folder nor other files.
dist: dist/moonwatch.c

dist/moonwatch.c: tools/dist.lua $(ENGINE) $(BINDING) $(HEADERS) $(LUA_FILES) $(BUILD)/settings | build-deps
	@mkdir -p $(@D)
	@$(BUILD_LUA) tools/dist.lua "$$(printf '$(KHASH)' | $(CC) -M $(INCLUDE) -x c - | tr ' ' '\n' | grep -m 1 'khash\.h$$')" dist

$(BUILD)/dist/%.o: dist/moonwatch.c
	@mkdir -p $(@D)
	$(CC) -std=c11 $(CFLAGS) $(PIC) -Idist -I$(LUA_INCDIR) -DMW_API='$(EXPORT)' -c -o $@ dist/$*.c

$(BUILD)/dist/libmoonwatch.a: $(BUILD)/dist/moonwatch.o $(BUILD)/dist/moonwatch_lua.o
	$(AR) rcs $@ $^

$(BUILD)/dist/libmoonwatch.$(SO): $(BUILD)/dist/moonwatch.o $(BUILD)/dist/moonwatch_lua.o
	$(CC) $(CFLAGS) $(LIBFLAG) -o $@ $^ $(LINK)

# Under PREFIX, and with DESTDIR in front: what a rock has, and what a C program
# needs.  `make uninstall` removes the same files.
INTO    = $(DESTDIR)$(abspath $(PREFIX))
SHARED  = $(INTO)/share/lua/$(LUA_VERSION)
NATIVE  = $(INTO)/lib/lua/$(LUA_VERSION)/moonwatch/core.$(SO)
TYPES   = $(wildcard types/*.lua)
PAGES   = LICENSE README.md CHANGELOG.md $(wildcard docs/*.md docs/recipes/*.md)
INSTALL = install -D -m 644

install: all install-command $(BUILD)/dist/libmoonwatch.a $(BUILD)/dist/libmoonwatch.$(SO)
	for f in $(LUA_FILES); do $(INSTALL) $$f "$(SHARED)/$${f#lua/}" || exit 1; done
	for f in $(TYPES); do $(INSTALL) $$f "$(INTO)/share/moonwatch/$$f" || exit 1; done
	for f in $(PAGES); do $(INSTALL) $$f "$(INTO)/share/doc/moonwatch/$$f" || exit 1; done
	install -D -m 755 $(CORE) "$(NATIVE)"
	for f in moonwatch.h moonwatch_lua.h; do $(INSTALL) dist/$$f "$(INTO)/include/$$f" || exit 1; done
	$(INSTALL) $(BUILD)/dist/libmoonwatch.a "$(INTO)/lib/libmoonwatch.a"
	install -m 755 $(BUILD)/dist/libmoonwatch.$(SO) "$(INTO)/lib/libmoonwatch.$(SO)"
	mkdir -p "$(INTO)/lib/pkgconfig"
	sed -e 's|@PREFIX@|$(abspath $(PREFIX))|' -e 's|@VERSION@|$(VERSION)|' tools/moonwatch.pc > "$(INTO)/lib/pkgconfig/moonwatch.pc"

# For LuaRocks, which says where: the core and the Lua files, and nothing in
# this folder.
install-rock:
	mkdir -p "$(LIBDIR)/moonwatch"
	$(COMPILE) $(LEAN) $(HIDDEN) $(PIC) $(LIBFLAG) -o "$(LIBDIR)/moonwatch/core.$(SO)" $(ENGINE) $(BINDING) $(LINK)
	for f in $(LUA_FILES); do $(INSTALL) $$f "$(LUADIR)/$${f#lua/}" || exit 1; done

# Rocks of the last commit, with its sources inside, in build/rock; and their
# rockspecs, which name this folder, for `luarocks install`.
rock:
	@mkdir -p $(BUILD)/rock
	@for rock in moonwatch moonwatch-cli; do \
	  sed -e 's|version = "scm-1"|version = "$(VERSION)-1"|' -e 's|git+file://\.|git+file://$(CURDIR)|' \
	    rockspec/$$rock-scm-1.rockspec > $(BUILD)/rock/$$rock-$(VERSION)-1.rockspec && \
	  (cd $(BUILD)/rock && $(LUAROCKS) pack $$rock-$(VERSION)-1.rockspec) || exit 1; done

uninstall:
	rm -rf "$(SHARED)/moonwatch" "$(dir $(NATIVE))" "$(INTO)/share/moonwatch" "$(INTO)/share/doc/moonwatch"
	rm -f "$(INTO)/include/moonwatch.h" "$(INTO)/include/moonwatch_lua.h" "$(INTO)/lib/libmoonwatch.a" "$(INTO)/lib/libmoonwatch.$(SO)" "$(INTO)/lib/pkgconfig/moonwatch.pc" "$(INTO)/bin/moonwatch"

# The command, which is told where its modules are.
install-command: all
	for f in $(COMMAND_FILES); do $(INSTALL) $$f "$(SHARED)/$${f#command/}" || exit 1; done
	mkdir -p "$(INTO)/bin"
	sed -e '1s|.*|#!/usr/bin/env $(LUA)|' -e 's|^local PREFIX = nil|local PREFIX = [[$(abspath $(PREFIX))]]|' \
	  command/main.lua > "$(INTO)/bin/moonwatch"
	chmod 755 "$(INTO)/bin/moonwatch"

clean:
	rm -rf build dist

version:
	@echo $(VERSION)

env:
	@echo "export LUA_PATH='$(LUA_PATH)' LUA_CPATH='$(LUA_CPATH)'"

# What is missing is installed, if it is one of the packages named here; a setting
# of the caller that leads nowhere is not answered with a package.
KHASH  = \#if !__has_include(<khash.h>)\n\#include <htslib/khash.h>\n\#endif\n
given  = $(findstring command line,$(origin $(1)))$(findstring environment,$(origin $(1)))
LUA_PACKAGE = $(if $(call given,LUA)$(RUN),"!there is no Lua that runs: LUA='$(strip $(RUN) $(LUA))'",lua5.4)
DEV_PACKAGE = $(if $(call given,LUA_INCDIR)$(call given,LUA)$(RUN),"!there is no lua.h in LUA_INCDIR='$(LUA_INCDIR)'",liblua5.4-dev)
found  = $(BUILD_LUA) -e 'assert(package.searchpath([[$(1)]], package.path))'

lua-deps:
	@.ci/need $(LUA_PACKAGE) "$(RUN) $(LUA) -e 'os.exit(true)'"

build-deps:
	@.ci/need $(if $(STATIC),,$(LUA_PACKAGE) "$(RUN) $(LUA) -e 'os.exit(true)'") \
	  "!there is no compiler: CC='$(CC)'" "command -v $(firstword $(CC))" \
	  $(DEV_PACKAGE) 'test -e "$(LUA_INCDIR)/lua.h"' \
	  libhts-dev "printf '$(KHASH)' | $(CC) -fsyntax-only $(INCLUDE) -x c - || printf '$(KHASH)' | $(CC) -E $(INCLUDE) - || test -e /usr/include/htslib/khash.h"

test-deps: build-deps
	@.ci/need lua5.4 "command -v $(firstword $(BUILD_LUA))" \
	  lua-busted "$(call found,busted.runner)" \
	  lua-penlight "$(call found,pl.class)" lua-dkjson "$(call found,dkjson)" \
	  lua-argparse "$(call found,argparse)" \
	  $(if $(RUN)$(STATIC),,luarocks "command -v luarocks")

install-deps:
	@.ci/need pkg-config "command -v pkg-config" cmake "command -v cmake" g++ "command -v g++"

# gcc-multilib would stand in the way of the other compilers.
platform-deps:
	@.ci/need clang "command -v clang" tcc "command -v tcc" musl-tools "command -v musl-gcc" \
	  gcc-12-multilib "test -e /usr/lib32/libc.so" \
	  gcc-s390x-linux-gnu "command -v s390x-linux-gnu-gcc" gcc-aarch64-linux-gnu "command -v aarch64-linux-gnu-gcc" \
	  libc6-dev-s390x-cross "test -e /usr/s390x-linux-gnu/include" libc6-dev-arm64-cross "test -e /usr/aarch64-linux-gnu/include" \
	  qemu-user "command -v qemu-s390x" \
	  gcc-mingw-w64-x86-64-win32 "command -v x86_64-w64-mingw32-gcc" \
	  wine "command -v wine" wine64 "dpkg -s wine64"

lint-deps:
	@.ci/need lua-check "command -v luacheck" clang-format "command -v clang-format" \
	  cppcheck "command -v cppcheck" g++ "command -v $(CXX)"

deps: test-deps lint-deps

valgrind-deps:
	@.ci/need valgrind "command -v valgrind"

browser-deps:
	@.ci/need $(BROWSER) "command -v $(BROWSER)"

# Other settings build anew.
SETTINGS = $(COMPILE) $(LEAN) $(LIBFLAG) $(LUA_LIB) $(TARGET)

$(BUILD)/settings: anew
	@mkdir -p $(@D)
	@echo '$(SETTINGS)' | cmp -s - $@ || echo '$(SETTINGS)' > $@

# Each file becomes an object by itself: without checks for programs, with
# them for specs.
$(BUILD)/plain/%.o: %.c $(BUILD)/settings | build-deps
	@mkdir -p $(@D)
	$(COMPILE) $(LEAN) $(HIDDEN) $(PIC) -MMD -MP -c -o $@ $<

$(BUILD)/checks/%.o: %.c $(BUILD)/settings | build-deps
	@mkdir -p $(@D)
	$(COMPILE) -DMW_CHECKS $(HIDDEN) $(PIC) -MMD -MP -c -o $@ $<

-include $(wildcard $(BUILD)/plain/*/*.d $(BUILD)/plain/*/*/*/*.d $(BUILD)/checks/*/*.d $(BUILD)/checks/*/*/*/*.d $(BUILD)/covered/*/*.d $(BUILD)/covered/*/*/*/*.d)

$(CORE): $(patsubst %.c,$(BUILD)/plain/%.o,$(ENGINE) $(BINDING))
	@mkdir -p $(@D)
	$(COMPILE) $(LEAN) $(PIC) $(LIBFLAG) -o $@ $^ $(LINK)

$(CHECKED): $(patsubst %.c,$(BUILD)/checks/%.o,spec/support/checks.c $(ENGINE) $(BINDING))
	@mkdir -p $(@D)
	$(COMPILE) $(PIC) $(LIBFLAG) -o $@ $^ $(LINK)

$(BUILD)/test/engine$(EXE): $(wildcard spec/engine/*.c) spec/support/heap.c spec/support/checks.c $(ENGINE) $(HEADERS) $(BUILD)/settings | build-deps
	@mkdir -p $(@D)
	$(COMPILE) $(TINY) -DMW_CHECKS -o $@ $(filter %.c,$^)

$(BUILD)/test/faults$(EXE): $(patsubst %.c,$(BUILD)/checks/%.o,spec/support/faults.c spec/support/compiled.c spec/support/host.c spec/support/heap.c spec/support/checks.c $(ENGINE) $(BINDING))
	@mkdir -p $(@D)
	$(COMPILE) -o $@ $^ $(LUA_LIB) -lm

$(BUILD)/test/support.$(SO): spec/support/support.c $(BUILD)/settings | build-deps
	@mkdir -p $(@D)
	$(COMPILE) $(PIC) $(LIBFLAG) -o $@ $< $(LINK)

# Lua with the library and what specs need inside.
$(PROGRAM): spec/support/program.c spec/support/support.c $(ENGINE) $(BINDING) $(HEADERS) $(BUILD)/settings | build-deps
	@mkdir -p $(@D)
	$(COMPILE) -o $@ $(filter %.c,$^) $(LUA_LIB) -lm

$(BUILD)/test/fuzz: spec/support/fuzz.c spec/support/checks.c $(ENGINE) $(BINDING) $(HEADERS) $(BUILD)/settings | build-deps
	@mkdir -p $(@D) $(BUILD)/corpus
	clang -std=c11 -g -O1 -DMW_CHECKS -fsanitize=fuzzer,address,undefined $(INCLUDE) -o $@ $(filter %.c,$^) $(LUA_LIB) -lm

$(BUILD)/bench/floor.so: bench/floor.c $(BUILD)/settings | build-deps
	@mkdir -p $(@D)
	$(COMPILE) $(PIC) $(LIBFLAG) -o $@ $< $(LINK)

# Counts the lines that run, and the calls of each function.
$(BUILD)/covered/%.o: %.c $(BUILD)/settings | build-deps
	@mkdir -p $(@D)
	$(COMPILE) -O0 --coverage $(HIDDEN) $(PIC) -MMD -MP -c -o $@ $<

$(COVERED): $(patsubst %.c,$(BUILD)/covered/%.o,$(ENGINE) $(BINDING))
	@mkdir -p $(@D)
	$(COMPILE) --coverage $(PIC) $(LIBFLAG) -o $@ $^ $(LINK)

$(ENTRIES): bench/entries.c $(ENGINE) $(BINDING) $(HEADERS) $(BUILD)/settings | build-deps
	@mkdir -p $(@D)
	$(COMPILE) -finstrument-functions $(PIC) $(LIBFLAG) -o $@ $(filter %.c,$^) $(LINK)

.PHONY: all run test test-install test-platforms soak test-browser bench entries weight callgrind asan soak-lost fuzz reference docs lint dist install install-rock rock uninstall clean version env anew deps lua-deps build-deps test-deps lint-deps install-deps platform-deps valgrind-deps browser-deps
