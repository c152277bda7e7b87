# Targets people use: run, test, bench, lint, build. Everything a target
# builds goes to bin/ or the user's cache folder.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
GO          ?= go
BIN         := bin/meshtrial
STUDY       ?= quick
# How many runs of a simulated study each cell of the table of worlds has.
SIMULATIONS ?= 150
NPM_DIR     := ui/web
STATICCHECK ?= staticcheck-v0.8.2
# Everything is compiled the same way, so that it is compiled once: for the
# program, for its tests, and for the components of the lab, whose tags these
# are (lab/components/gobuild.go; a test holds them together). notest is without
# the methods that fill Kubernetes' types at random; vtprotobuf and disable_pgv
# are how istiod has Envoy's messages. grpcnotrace is without gRPC's traces,
# whose page is a template: templates call methods by name, for which the linker
# would keep every method of every type. dwarf=false is without the tables of
# debuggers: the linker drops them again, and the compiler spends a tenth of
# its time on them.
TAGS := notest,grpcnotrace,vtprotobuf,disable_pgv
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath -gcflags=all=-dwarf=false -tags=$(TAGS)

.PHONY: build run test verify test-unit node-packages test-web bench bench-scenarios bench-sidecars machines lint staticcheck documents web wasm release environment clean help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

# Without the tables of debuggers (-s -w): a third smaller, and it is the
# image of every pod; stack traces and profiles keep their names. STAMP is the
# version of sources that are no git repository.
build: ## build bin/meshtrial (static: it also runs inside the lab's pods)
	@GO="$(GO)" .ci/build -buildvcs=auto -ldflags "-s -w$(if $(STAMP), -X github.com/meshtrial/meshtrial/app.stamp=$(STAMP))" -o $(BIN) ./cmd/meshtrial

run: build ## build what is missing, start the lab, run study/studies/quick.yaml, write a report
	$(BIN) run $(STUDY)

test: build ## every behaviour once: unit, web page, and on the real lab (root)
	@$(GO) run ./testing/testrun test

verify: build ## the rest: what takes long on the lab, the race detector, fuzz targets, staticcheck (SHARD=2/4: a part; RUN=pattern: some tests on labs)
	@SHARD="$(SHARD)" RUN="$(RUN)" $(GO) run ./testing/testrun verify

test-unit: ## tests that need neither root nor a lab
	$(GO) test -skip ^TestSimulation ./...

# The packages of Node.js that a folder's package-lock.json pins.
%/node_modules/.package-lock.json: %/package-lock.json
	cd $* && npm ci --no-audit --no-fund && touch node_modules/.package-lock.json

node-packages: $(NPM_DIR)/node_modules/.package-lock.json mesh/istio/wasm/node_modules/.package-lock.json ## the packages that the page, its tests and the Wasm filters are built with

test-web: node-packages ## tests of the page's own logic
	cd $(NPM_DIR) && npm run lint && npm test -- --testTimeout=60000 --hookTimeout=60000

documents: $(NPM_DIR)/node_modules/.package-lock.json ## write what is generated from the program again: tables of docs/, the schema, golden reports, the types of the page's documents and those its tests read
	$(GO) test ./study ./lab/rights ./lab/components ./app ./report ./kinds ./kinds/reports ./kinds/controlplane/sections ./kinds/dataplane/sections ./kinds/resilience/sections -run '^Test(RecordedRuns|RecordedAs[A-Za-z]+|SchemaFileIsCurrent|ReferenceFileIsCurrent|SourceArchiveIsCurrent|Document|ChangesOfShippedStudies|MeshesOfOthers|DocumentsSchema|FixturesOfThePage|Golden)$$' -count=1 -update
	cd $(NPM_DIR) && npm test -- test/documents.test.ts --update --testTimeout=60000

web: $(NPM_DIR)/node_modules/.package-lock.json ## build the page that reports are made of
	cd $(NPM_DIR) && npm run build

wasm: mesh/istio/wasm/node_modules/.package-lock.json ## build the Wasm filters that parts of sidecars are
	cd mesh/istio/wasm && npm run build

release: ## archives of the current commit for amd64 and arm64, with SBOMs, notes and checksums, in bin/release
	$(GO) run ./testing/release bin/release

bench: build ## speed and truth targets, as ratios in one run (wants an idle machine)
	$(GO) test ./stat -run TestSimulation -count=1 -v
	MESHTRIAL_SIMULATIONS=1000 $(GO) test ./stat -run 'TestSimulation(Compare|Trend)' -count=1 -v
	MESHTRIAL_SIMULATIONS=300 $(GO) test ./analysis -run TestSimulationSearch -count=1 -v -timeout 60m
	MESHTRIAL_SIMULATIONS=$(SIMULATIONS) $(GO) test ./analysis -run TestSimulationStudy -count=1 -v
	MESHTRIAL_SIMULATIONS=100 $(GO) test ./stat/tuning -run TestSimulationTuning -count=1 -v -timeout 60m
	$(GO) run ./bench
	$(GO) run ./bench/generators
	$(GO) run ./bench/worker
	$(GO) run ./bench/lab
	$(GO) run ./bench/xds
	$(GO) run ./bench/capacity
	$(GO) run ./bench/page
	MESHTRIAL_BENCH_PAGE=1 $(GO) test ./kinds/reports -run TestLargeRunInBrowser -count=1 -v

bench-scenarios: build ## every shipped scenario ten times: the same verdict each time? (hours; goes on where it was)
	$(GO) run ./bench/scenarios
	$(GO) run ./bench/advice

bench-sidecars: build ## generated Sidecars for 100 services under real traffic, beside none and those by hand (wants some 8 GiB)
	MESHTRIAL_GENERATE_SERVICES=$(or $(SERVICES),100) MESHTRIAL_GENERATE_PODS=$(or $(PODS),48) $(GO) test -tags verify,$(TAGS) ./cli -run TestGeneratedSidecars -count=1 -v -timeout 90m

machines: build ## lab up and a run of each kind on emulated machines as users have them: Debian 12, 13 and others (hours; root; MACHINE=name for one)
	$(BIN) lab components build
	$(GO) run ./testing/machines $(MACHINE)

lint: ## formatting, vet, structure
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "not gofmt-formatted:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags integration,verify,$(TAGS) ./...
	$(GO) test -count=1 ./testing/deptest

staticcheck: ## what staticcheck finds (the first time it has to be built: it wants the network)
	@if [ ! -x bin/$(STATICCHECK) ]; then \
	  GOBIN=$(CURDIR)/bin $(GO) install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK:staticcheck-%=%) && mv bin/staticcheck bin/$(STATICCHECK) || \
	  echo "not run: staticcheck is not in bin and cannot be had from here"; fi
	@if [ -x bin/$(STATICCHECK) ]; then echo bin/$(STATICCHECK); bin/$(STATICCHECK) -tags integration,verify,$(TAGS) ./...; fi

environment: ## how everything here is compiled: eval "$$(make environment)"
	@echo 'export CGO_ENABLED=$(CGO_ENABLED) GOFLAGS="$(GOFLAGS)" TAGS=$(TAGS)'

clean: ## remove bin/ (the component cache stays: meshtrial lab components list says where)
	rm -rf bin
