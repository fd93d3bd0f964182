# moonwatch: settings first; any of them can be given on the command line.

LUA        = lua5.4
LUAROCKS   = luarocks --lua-version 5.4
CC         = gcc
CXX        = g++
CFLAGS     = -O2 -g
WARN       = -Wall -Wextra -Wshadow -Wconversion
WARN_C     = $(WARN) -std=c11 -Wstrict-prototypes
LIBFLAG    = -shared
LUA_INCDIR = $(firstword $(wildcard /usr/include/lua5.4 /usr/local/include/lua5.4 /usr/include /usr/local/include))
LUA_LIB    = -llua5.4
KLIB       =# a klib checkout to take khash.h from, instead of the system's
PREFIX     = /usr/local
BUILD      = build
SANITIZE   =# set by `make asan`
SECONDS    = 60# how long `make fuzz` looks

PACKAGES   = lua5.4 liblua5.4-dev lua-busted luarocks libhts-dev lua-check lua-penlight lua-dkjson lua-argparse
LINTERS    = clang-format cppcheck g++
BROWSER    = chromium

# What follows is derived.

ENGINE  = $(wildcard engine/*.c)
BINDING = $(wildcard engine/bind/*.c)
HEADERS = $(wildcard engine/*.h engine/bind/*.h spec/support/*.h spec/engine/*.h)
CORE    = $(BUILD)/moonwatch/core.so
ENTRIES = $(BUILD)/entries/moonwatch/core.so
INCLUDE = $(if $(KLIB),-I$(KLIB)) -I$(LUA_INCDIR)
COMPILE = $(CC) $(WARN_C) $(CFLAGS) $(SANITIZE) $(INCLUDE)
TINY    = -DMWI_MAXSLOT=4000 -DMWI_MAXAGE=100000 -DMWI_MAXCLOCK=20
CHECKED = $(BUILD)/test/checked/moonwatch/core.so
TESTS   = $(BUILD)/test/engine $(BUILD)/test/faults $(BUILD)/test/support.so

export LUA_PATH  = $(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;$(CURDIR)/command/?.lua;;
export LUA_CPATH = $(CURDIR)/$(BUILD)/?.so;;
export PWD       = $(CURDIR)
export LUA BUILD CC LUAROCKS

all: deps $(CORE)

run: all
	@$(LUA) examples/story.lua

test: all $(TESTS)
	@$(LUA) spec/support/suites.lua

# Longer: more random worlds, each allocation failing, and the specs while
# garbage is collected every few instructions.
soak: all $(TESTS) $(CHECKED)
	@SOAK=20 ROUNDS=200000 $(LUA) spec/support/suites.lua

test-browser: all browser-deps
	@$(LUA) spec/support/browser.lua

bench: all $(BUILD)/bench/floor.so
	@$(LUA) bench/run.lua $(BENCH)

# The functions that a write enters; WAYS="guard flag" names them.
entries: deps $(ENTRIES) $(BUILD)/bench/floor.so
	@LUA_CPATH="$(BUILD)/entries/?.so;$(LUA_CPATH)" $(LUA) bench/entries.lua $(ENTRIES) $(WAYS)

# The instructions of a write; ROWS="key flag" chooses some.
callgrind: valgrind-deps all $(BUILD)/bench/floor.so
	@$(LUA) bench/callgrind.lua $(ROWS)

asan:
	@$(MAKE) --no-print-directory test BUILD=build/asan CFLAGS="-O1 -g" \
	  SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined"

fuzz: all $(BUILD)/test/fuzz
	$(BUILD)/test/fuzz -max_total_time=$(SECONDS) -rss_limit_mb=4096 $(BUILD)/corpus spec/corpus

# What is made from docs/reference.lua: sections of the pages, and the types.
reference:
	@$(LUA) docs/make/fill.lua

docs: reference
	@$(LUA) docs/make/site.lua $(BUILD)/docs

lint: deps lint-deps
	@$(LUA) spec/support/lint.lua

install: all install-command
	cd lua && find moonwatch -name '*.lua' \
	  -exec install -D -m 644 {} $(abspath $(PREFIX))/share/lua/5.4/{} \;
	install -D $(CORE) $(PREFIX)/lib/lua/5.4/moonwatch/core.so
	install -D -m 644 types/moonwatch.lua $(PREFIX)/share/moonwatch/types/moonwatch.lua

# The command, which is told where its modules are.
install-command: all
	cd command && find moonwatch -name '*.lua' \
	  -exec install -D -m 644 {} "$(PREFIX)"/share/lua/5.4/{} \;
	mkdir -p "$(PREFIX)/bin"
	sed -e '1s|.*|#!/usr/bin/env $(LUA)|' -e 's|^local PREFIX = nil|local PREFIX = [[$(abspath $(PREFIX))]]|' \
	  command/main.lua > "$(PREFIX)/bin/moonwatch"
	chmod 755 "$(PREFIX)/bin/moonwatch"

clean:
	rm -rf build

env:
	@echo "export LUA_PATH='$(LUA_PATH)' LUA_CPATH='$(LUA_CPATH)'"

# $(call need,packages,a test that all is there)
need = @{ $(2); } >/dev/null 2>&1 || \
  { command -v apt-get && s=$$([ "$$(id -u)" = 0 ] || echo sudo) && { [ -z "$$s" ] || command -v sudo; } && \
    $$s apt-get update && $$s env DEBIAN_FRONTEND=noninteractive apt-get install -y $(1); } >&2 || \
  { echo "please install: $(1) (Debian's names)"; exit 1; } >&2

HEADERS_TEST = \#include <lua.h>\n\#if !__has_include(<khash.h>)\n\#include <htslib/khash.h>\n\#endif\n

deps:
	$(call need,$(PACKAGES),command -v $(LUA) && command -v busted && command -v luarocks && command -v luacheck && $(LUA) -l pl.class -l dkjson -l argparse -e "" && \
	  printf '$(HEADERS_TEST)' | $(CC) -fsyntax-only $(INCLUDE) -x c -)

lint-deps:
	$(call need,$(LINTERS),command -v clang-format && command -v cppcheck && command -v $(CXX))

valgrind-deps:
	$(call need,valgrind,command -v valgrind)

browser-deps:
	$(call need,$(BROWSER),command -v $(BROWSER))

$(CORE): $(ENGINE) $(BINDING) $(HEADERS) | deps
	@mkdir -p $(@D)
	$(COMPILE) -fPIC $(LIBFLAG) -o $@ $(ENGINE) $(BINDING)

# The same with all checks, for specs.
$(CHECKED): spec/support/checks.c $(ENGINE) $(BINDING) $(HEADERS) | deps
	@mkdir -p $(@D)
	$(COMPILE) -DMW_CHECKS -fPIC $(LIBFLAG) -o $@ $(filter %.c,$^)

$(BUILD)/test/engine: $(wildcard spec/engine/*.c) spec/support/heap.c spec/support/checks.c $(ENGINE) $(HEADERS) | deps
	@mkdir -p $(@D)
	$(COMPILE) $(TINY) -DMW_CHECKS -o $@ $(filter %.c,$^)

$(BUILD)/test/faults: spec/support/faults.c spec/support/heap.c spec/support/checks.c $(ENGINE) $(BINDING) $(HEADERS) | deps
	@mkdir -p $(@D)
	$(COMPILE) -DMW_CHECKS -o $@ $(filter %.c,$^) $(LUA_LIB) -lm

$(BUILD)/test/support.so: spec/support/support.c | deps
	@mkdir -p $(@D)
	$(COMPILE) -fPIC $(LIBFLAG) -o $@ $<

$(BUILD)/test/fuzz: spec/support/fuzz.c spec/support/checks.c $(ENGINE) $(BINDING) $(HEADERS) | deps
	@mkdir -p $(@D) $(BUILD)/corpus
	clang -std=c11 -g -O1 -DMW_CHECKS -fsanitize=fuzzer,address,undefined $(INCLUDE) -o $@ $(filter %.c,$^) $(LUA_LIB) -lm

$(BUILD)/bench/floor.so: bench/floor.c | deps
	@mkdir -p $(@D)
	$(COMPILE) -fPIC $(LIBFLAG) -o $@ $<

$(ENTRIES): bench/entries.c $(ENGINE) $(BINDING) $(HEADERS) | deps
	@mkdir -p $(@D)
	$(COMPILE) -finstrument-functions -fPIC $(LIBFLAG) -o $@ $(filter %.c,$^)

.PHONY: all run test soak test-browser bench entries callgrind asan fuzz reference docs lint install install-command clean env deps lint-deps valgrind-deps browser-deps
