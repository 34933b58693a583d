# attune: one Makefile, everything it makes goes to build/.   `make help` lists the targets.
MAKEFLAGS += --no-builtin-rules
SHELL := /bin/bash
.SUFFIXES:
.DELETE_ON_ERROR:

B      ?= build
CC     ?= cc
ifeq ($(origin CC),default)
CC     := cc
endif
OPT    ?= -O2 -g
WARN   := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
ifdef WERROR
WARN   += -Werror
endif
# Contraction stays off so that the reference's rounding points are the same on every machine.
CFLAGS_ALL := -std=c11 -D_GNU_SOURCE $(OPT) $(WARN) -ffp-contract=off -fvisibility=hidden -fno-strict-aliasing -pthread $(EXTRA)
LUA_CFLAGS = $(shell pkg-config --cflags lua5.4)
# Linked statically, so that build/attune can be copied to a machine without these packages.
STATIC := -l:liblua5.4.a -l:libyaml.a -l:libmd.a -l:libzstd.a
LIBS   := -lm -ldl -pthread
CHECK_LIBS = $(shell pkg-config --libs check)

RUNTIME := $(wildcard runtime/*.c)
GEN     := $(wildcard gen/*.c)
CLI     := $(wildcard gen/cli/*.c)
TESTS   := $(wildcard tests/test_*.c)
TESTLIB := $(filter-out $(TESTS),$(wildcard tests/*.c))
TEMPLATES := $(sort $(shell find templates -type f 2>/dev/null))
EXAMPLES := $(wildcard runtime/examples/*.c)
BENCHES := $(wildcard tests/bench/*.c)
obj = $(patsubst %.c,$(B)/obj/%.o,$(1))

PROGRAMS := $(B)/attune
TEST_PROGRAMS := $(patsubst tests/%.c,$(B)/tests/%,$(TESTS))

.PHONY: all
all: $(PROGRAMS) ## build build/attune and the libraries
	@true

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(LUA_CFLAGS) -MMD -MP -c $< -o $@

$(B)/libattune.a: $(call obj,$(RUNTIME))
	@rm -f $@
	ar rcs $@ $^
$(B)/libattune_gen.a: $(call obj,$(GEN)) $(B)/obj/embed.o
	@rm -f $@
	ar rcs $@ $^
$(B)/attune: $(call obj,$(CLI)) $(B)/libattune_gen.a $(B)/libattune.a
	$(CC) $(CFLAGS_ALL) $^ $(STATIC) $(LIBS) -o $@

# The templates travel inside the program: a C file that includes their bytes by .incbin.
$(B)/embed.c: gen/embed.sh $(TEMPLATES)
	@mkdir -p $(@D)
	sh gen/embed.sh $(TEMPLATES) > $@
$(B)/obj/embed.o: $(B)/embed.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -I. -c $< -o $@

$(B)/tests/%: $(B)/obj/tests/%.o $(call obj,$(TESTLIB)) $(B)/libattune_gen.a $(B)/libattune.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $^ $(STATIC) $(CHECK_LIBS) $(LIBS) -o $@

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)

.PHONY: tests
tests: $(TEST_PROGRAMS)
.PHONY: check
check: all tests ## build and run the tests; needs no GPU
	@tests/run.sh $(TEST_PROGRAMS)

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
.PHONY: clean
clean: ## remove build/
	rm -rf $(B)
