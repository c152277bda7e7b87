//go:build tools

// Package gateway names a server that speaks S3, for tests: a module of its own, as none of
// it belongs in meshtrial's binary.
package gateway

import _ "github.com/versity/versitygw/cmd/versitygw"
