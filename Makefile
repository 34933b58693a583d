# attune: one Makefile; everything it makes goes to build/. `make help` lists the targets.
MAKEFLAGS += --no-builtin-rules
SHELL     := /bin/bash
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

B   ?= build
OPT ?= -O2 -g
ifeq ($(origin CC),default)
CC := cc
endif

WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
ifdef WERROR
WARN += -Werror
endif
# No contraction: the reference's rounding points must be the same on every machine.
FLAGS = -std=c11 -D_GNU_SOURCE $(OPT) $(WARN) -ffp-contract=off -fvisibility=hidden \
         -fno-strict-aliasing -pthread -Iruntime $(EXTRA)
LUA_CFLAGS = $(shell pkg-config --cflags lua5.4)
# Static, so that build/ can be copied to a GPU machine that has none of these packages.
STATIC := -l:liblua5.4.a -l:libyaml.a -l:libmd.a -l:libzstd.a
LIBS   := -lm -ldl -pthread
CHECK  := -l:libcheck_pic.a -l:libsubunit.a -lrt

RUNTIME   := $(wildcard runtime/*.c)
CPU       := $(wildcard runtime/cpu/*.c)
GEN       := $(wildcard gen/*.c)
CLI       := $(wildcard gen/cli/*.c)
TESTS     := $(wildcard tests/test_*.c)
TEST_LIB  := $(filter-out $(TESTS),$(wildcard tests/*.c))
ifneq ($(B),build) # these use the ordinary build; under `make san` there may be none
TESTS     := $(filter-out tests/test_install.c tests/test_python.c tests/test_rust.c,$(TESTS))
endif
GPU_TESTS := $(wildcard tests/gpu/*.c)
BENCHES   := $(wildcard tests/bench/*.c)
EXAMPLES  := $(wildcard runtime/examples/*.c)
TEMPLATES := $(sort $(shell find templates -type f))
TUNED     := $(sort $(wildcard specs/tuned/*.yaml))
SOURCES   := $(RUNTIME) $(CPU) $(GEN) $(CLI) $(TESTS) $(TEST_LIB) $(GPU_TESTS) $(BENCHES) $(EXAMPLES) \
             $(wildcard tests/doctor/*.c tests/embed/*.c)
HEADERS   := $(wildcard runtime/*.h runtime/cpu/*.h gen/*.h gen/cli/*.h tests/*.h tests/embed/*.h)
SCRIPTS   := $(shell find .ci gen tests runtime -name '*.sh') .ci/run

objects  = $(patsubst %.c,$(B)/obj/%.o,$(1))
PROGRAMS := $(patsubst tests/%.c,$(B)/tests/%,$(TESTS) $(GPU_TESTS)) \
            $(patsubst tests/bench/%.c,$(B)/bench/%,$(BENCHES)) \
            $(patsubst runtime/examples/%.c,$(B)/examples/%,$(EXAMPLES))
TEST_PROGRAMS := $(patsubst tests/%.c,$(B)/tests/%,$(TESTS))
ARCHIVES := $(B)/libattune_gen.a $(B)/libattune_cpu.a $(B)/libattune.a

# `make install PREFIX=/usr/local DESTDIR=`; BINDIR, LIBDIR, INCLUDEDIR, DATADIR follow PREFIX.
PREFIX    ?= /usr/local
VERSION   := $(shell sed -n 's/^.define ATTUNE_VERSION_TEXT *"\(.*\)"/\1/p' runtime/attune.h)
MAJOR     := $(firstword $(subst ., ,$(VERSION)))
SHARED    := $(patsubst %,$(B)/%.so.$(MAJOR),libattune libattune_cpu libattune_gen)
PAGES     := $(patsubst %,$(B)/share/attune.%,1 bash zsh fish)
INSTALLED := $(B)/attune $(ARCHIVES) $(SHARED) $(PAGES)
PLACE      = VERSION=$(VERSION) PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" BINDIR="$(BINDIR)" \
             LIBDIR="$(LIBDIR)" INCLUDEDIR="$(INCLUDEDIR)" DATADIR="$(DATADIR)" runtime/install/install.sh

# On a machine that got a copy of build/ but has no packages, what is there is used as it is.
USABLE := $(shell [ -x $(B)/attune ] && ! .ci/deps.sh --check && echo yes)

.PHONY: all run check check-spills check-sass check-gpu bench bench-check install uninstall abi format format-check lint layers san \
        golden deps clean help

all: $(INSTALLED) $(PROGRAMS) ## build build/attune, the libraries, tests and examples

run: $(if $(USABLE),,$(B)/attune) ## generate and compile specs/default.yaml, show it, verify it; without a GPU on the CPU device
	@$(B)/attune run specs/default.yaml -o $(B)/sets/default

check: $(TEST_PROGRAMS) $(B)/attune $(B)/install-test/.done ## run the tests; needs no GPU
	@tests/run.sh $(TEST_PROGRAMS)

check-spills: $(B)/attune ## compile every spec for every arch and list what spills; minutes; needs no GPU
	@tests/spills.sh $(B)

check-sass: $(B)/attune ## say where wgmma kernels' softmax stands in the machine code; fail when that changed
	@.ci/deps.sh --nvdisasm
	@tests/sass.sh $(B)

check-gpu: $(if $(USABLE),,all) ## run what needs an NVIDIA GPU: every default kernel, capture, example
	@tests/gpu.sh $(B)

bench: $(if $(USABLE),,all) ## time the lookup
	@for program in $(patsubst tests/bench/%.c,$(B)/bench/%,$(BENCHES)); do $$program || exit 1; done

bench-check: $(SHARED) ## check what tests/bench/peers.py is made of, without torch and without a GPU
	@python3 tests/bench/test_stats.py

install: $(INSTALLED) ## libraries, headers, pkg-config, CMake, program, pages, specs to PREFIX
	@$(PLACE) install $(B)

uninstall: ## remove what `make install` with the same variables put there
	@$(PLACE) uninstall $(B)

abi: ## write runtime/abi.txt and the raw layer of the bindings again, for review by git diff
	@runtime/abi.sh > $(B)/abi.txt && mv $(B)/abi.txt runtime/abi.txt
	@runtime/bindings.py

golden: $(B)/attune ## write tests/golden/ again, for review by git diff
	@tests/golden.sh $(B)/attune
	@.ci/deps.sh --nvdisasm && tests/sass.sh $(B) tests/golden/sass.txt

format: ## rewrite the C files as .clang-format says
	@clang-format -i $(SOURCES) $(HEADERS)

format-check: ## fail when `make format` would change something
	@clang-format --dry-run -Werror $(SOURCES) $(HEADERS)

lint: layers $(B)/example_standalone.c $(SHARED) ## clang's and gcc's warnings as errors, clang-tidy, shellcheck
	@shellcheck $(SCRIPTS)
	@for f in $(SOURCES); do for compiler in gcc clang; do \
	  $$compiler $(FLAGS) $(LUA_CFLAGS) -I$(B) -Werror -fsyntax-only $$f || exit 1; done; done
	@g++ -Wall -Wextra -Werror -fsyntax-only -Iruntime -x c++ runtime/attune.h runtime/attune_dlpack.h runtime/attune_cpu.h gen/jit.h
	@if cargo clippy --version >/dev/null 2>&1; then cd runtime/rust && export CARGO_TARGET_DIR=$(abspath $(B)/rust) && \
	  cargo fmt --check && cargo clippy -q --offline --locked --all-targets -- -D warnings; fi
	@printf "%s\n" $(SOURCES) | xargs -P 2 -I{} clang-tidy --quiet {} -- $(FLAGS) $(LUA_CFLAGS) -I$(B)

layers: ## fail on an include against the direction runtime <- gen <- tests
	@.ci/layers.sh

SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all
san: ## the tests under ASan and UBSan
	@$(MAKE) --no-print-directory check B=$(B)/san OPT='-O1 -g' WERROR=1 \
	  SANITIZE='$(SANITIZERS)' EXTRA='$(SANITIZERS) -fno-omit-frame-pointer'

deps: ## install what is missing (Debian packages, NVRTC)
	@.ci/deps.sh

clean: ## remove build/
	rm -rf $(B)

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "%-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# ---- rules ---------------------------------------------------------------------------------------

# Dependencies are looked at once, and again when their list changes.
$(B)/.deps: .ci/deps.sh
	@.ci/deps.sh
	@mkdir -p $(B) && touch $@

$(B)/obj/%.o: %.c | $(B)/.deps
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(LUA_CFLAGS) -MMD -MP -c $< -o $@

# The templates and the measured rows travel inside the program.
$(B)/embed.c: gen/embed.sh $(TEMPLATES) $(TUNED) $(shell find templates -type d)
	@mkdir -p $(@D)
	@sh gen/embed.sh $(TEMPLATES) > $@
	@ATTUNE_EMBED=attune__tuned_files sh gen/embed.sh $(TUNED) >> $@
$(B)/obj/embed.o: $(B)/embed.c | $(B)/.deps
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -I. -c $< -o $@

$(B)/libattune.a: $(call objects,$(RUNTIME))
	@rm -f $@
	ar rcs $@ $^
# Opcodes are loops over 32 lanes, made for the vectoriser; nothing reads the exception flags.
$(B)/obj/runtime/cpu/%.o: OPT := -O3 -g -fno-trapping-math
$(B)/libattune_cpu.a: $(call objects,$(CPU))
	@rm -f $@
	ar rcs $@ $^
$(B)/libattune_gen.a: $(call objects,$(GEN)) $(B)/obj/embed.o
	@rm -f $@
	ar rcs $@ $^

LINK = @mkdir -p $(@D); echo "link $@"; $(CC) $(FLAGS) $(filter %.o,$^) $(filter %.a,$^) $(STATIC)
$(B)/attune: $(call objects,$(CLI)) $(ARCHIVES)
	$(LINK) $(LIBS) -o $@
$(B)/tests/%: $(B)/obj/tests/%.o $(call objects,$(TEST_LIB)) $(ARCHIVES)
	$(LINK) $(CHECK) $(LIBS) -o $@
$(B)/tests/test_cli: $(B)/obj/gen/cli/cli.o
$(B)/bench/%: $(B)/obj/tests/bench/%.o $(ARCHIVES)
	$(LINK) $(LIBS) -o $@
$(B)/examples/%: $(B)/obj/runtime/examples/%.o $(ARCHIVES)
	$(LINK) $(LIBS) -o $@

# The examples of `attune embed`: over the runtime, and with nothing of it linked.
$(B)/examples/kernels.pack: runtime/examples/kernels.yaml $(B)/attune
	@mkdir -p $(@D)
	@$(B)/attune pack $< -o $@
$(B)/example_embedded.c: $(B)/examples/kernels.pack
	@$(B)/attune embed $< --ptx --prefix example -o $@
$(B)/example_standalone.c: $(B)/examples/kernels.pack
	@$(B)/attune embed $< --standalone --prefix example --header $(@:.c=.h) -o $@
$(B)/obj/example_%.o: $(B)/example_%.c
	$(CC) $(FLAGS) -c $< -o $@
$(B)/obj/runtime/examples/standalone.o: override EXTRA += -I$(B)
$(B)/obj/runtime/examples/standalone.o: $(B)/example_standalone.c
$(B)/examples/embedded: $(B)/obj/example_embedded.o
$(B)/examples/standalone: $(B)/obj/runtime/examples/standalone.o $(B)/obj/example_standalone.o
	@mkdir -p $(@D); echo "link $@"; $(CC) $(FLAGS) $^ -ldl -lpthread -lm -o $@
$(B)/tests/test_embed: | $(B)/attune $(B)/examples/embedded $(B)/examples/standalone

# ---- shared libraries ----------------------------------------------------------------------------

# Compiled apart, position-independent. Every symbol is visible in these objects, since a library may
# call the inside of one below it; exports.sh then says what a library shows, and to whom. Debian's
# archives of Lua, zstd and libmd are not position-independent: the shared ones are linked.
pic = $(patsubst %.c,$(B)/pic/%.o,$(1))
PIC := -fPIC -fvisibility=default -fno-semantic-interposition
$(B)/pic/%.o: %.c | $(B)/.deps
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(PIC) $(LUA_CFLAGS) -MMD -MP -c $< -o $@
$(B)/pic/embed.o: $(B)/embed.c | $(B)/.deps
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(PIC) -I. -c $< -o $@
$(B)/pic/runtime/cpu/%.o: OPT := -O3 -g -fno-trapping-math

PIC_RUNTIME := $(call pic,$(RUNTIME))
PIC_CPU     := $(call pic,$(CPU))
PIC_GEN     := $(call pic,$(GEN)) $(B)/pic/embed.o
EXPORTS     := runtime/abi.txt runtime/exports.sh

$(B)/libattune.map: $(PIC_RUNTIME) $(PIC_CPU) $(PIC_GEN) $(EXPORTS)
	@runtime/exports.sh libattune $(VERSION) $(PIC_RUNTIME) -- $(PIC_CPU) $(PIC_GEN) > $@
$(B)/libattune_cpu.map: $(PIC_CPU) $(PIC_GEN) $(EXPORTS)
	@runtime/exports.sh libattune_cpu $(VERSION) $(PIC_CPU) -- $(PIC_GEN) > $@
$(B)/libattune_gen.map: $(EXPORTS)
	@runtime/exports.sh libattune_gen $(VERSION) > $@

LINK_SHARED = @echo "link $@"; $(CC) $(FLAGS) -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic-functions \
              -Wl,-z,defs -Wl,--version-script=$(filter %.map,$^) $(filter %.o %.so.$(MAJOR),$^)
$(B)/libattune.so.$(MAJOR): $(PIC_RUNTIME) $(B)/libattune.map
	$(LINK_SHARED) -lmd -lzstd $(LIBS) -o $@
$(B)/libattune_cpu.so.$(MAJOR): $(PIC_CPU) $(B)/libattune_cpu.map $(B)/libattune.so.$(MAJOR)
	$(LINK_SHARED) $(LIBS) -o $@
$(B)/libattune_gen.so.$(MAJOR): $(PIC_GEN) $(B)/libattune_gen.map $(B)/libattune_cpu.so.$(MAJOR) $(B)/libattune.so.$(MAJOR)
	$(LINK_SHARED) -llua5.4 -lyaml $(LIBS) -o $@

# The program knows its own commands: the page and the completions cannot fall behind them.
$(B)/share/attune.1: $(B)/attune
	@mkdir -p $(@D)
	@$< man > $@
$(B)/share/attune.%: $(B)/attune
	@mkdir -p $(@D)
	@$< completion $* > $@

# What tests/test_install.c looks at.
$(B)/install-test/.done: $(INSTALLED) $(wildcard runtime/install/* runtime/*.def specs/* specs/models/*) runtime/attune.h \
                         runtime/attune_dlpack.h runtime/attune_cpu.h gen/jit.h
	@rm -rf $(@D)
	@VERSION=$(VERSION) PREFIX="$(abspath $(@D))" DESTDIR='' runtime/install/install.sh install $(B)
	@touch $@
$(B)/obj/tests/test_install.o: EXTRA += -DBUILD_FOLDER='"$(B)"' -DBUILD_FLAGS='"$(SANITIZE)"'

.SECONDARY:
-include $(shell find $(B)/obj $(B)/pic -name '*.d' 2>/dev/null)
