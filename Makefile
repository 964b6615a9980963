.DEFAULT_GOAL := help
.PHONY: help test lint cover fuzz mutate model bench faults newest

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## check and test every module; installs redis-server where it is missing
	@bash .ci/test.sh

lint: ## the checks alone: gofmt, go mod tidy, go vet, golangci-lint
	@bash .ci/test.sh format tidy vet lint

cover: ## statement coverage of guard, guard/redisstore, retry and fence: 90 % each
	@bash .ci/cover.sh

fuzz: ## run every fuzz target for FUZZTIME (30s) each
	@bash .ci/fuzz.sh

mutate: ## break each rule by a patch; a named test must notice. ARGS='-run name'
	go run ./internal/mutate $(ARGS)

model: ## explore all models of the protocols, the large ones too. ARGS='-match name'
	go run ./internal/model/run $(ARGS)

bench: ## measure us, other lock libraries and the bare client side by side
	cd internal/bench && go run . $(ARGS)

faults: ## the long share of the fault suite
	cd internal/faults && go run . $(ARGS)

newest: ## test a copy with the newest release of each dependency
	@bash .ci/newest.sh
