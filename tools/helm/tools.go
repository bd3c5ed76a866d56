//go:build tools

// Package helm names the program that `cargo xtask helm` builds, so that go.mod and go.sum hold what it needs and nothing else.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
