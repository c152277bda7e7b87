//go:build integration

package istio_test

import (
	"os"
	"testing"

	"github.com/meshmark/meshmark/internal/labtest"
)

// TestMain has the tests share a lab.
func TestMain(m *testing.M) { os.Exit(labtest.Sharing(m).Run()) }
