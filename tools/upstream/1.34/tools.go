//go:build tools

// Package upstream names the programs that `cargo xtask upstream` builds, and the tests of `cargo xtask conformance`, so that
// go.mod and go.sum hold what they need and nothing else.
package upstream

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/test/e2e"
)
