//go:build tools

// Package maestro names the programs that `cargo xtask maestro` builds, so that go.mod and go.sum hold what they need and
// nothing else.
package maestro

import (
	_ "github.com/openshift-online/maestro/cmd/maestro"
	_ "github.com/openshift-online/maestro/examples/manifestwork"
)
