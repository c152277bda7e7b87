//go:build integration

package xds_test

import (
	"testing"

	"github.com/meshtrial/meshtrial/drive/xds"
)

func TestRealIstiod(t *testing.T) { realIstiod(t, xds.ModeDelta) }
