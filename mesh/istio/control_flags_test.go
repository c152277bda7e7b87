package istio

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// A flag is set, replaced or removed however it was written, and the rest of the
// command line is unchanged.
func TestSetFlags(t *testing.T) {
	const flag = "--keepaliveMaxServerConnectionAge"
	for _, tt := range []struct{ args, level, want string }{
		{"discovery " + flag + " 30m --domain x", "30m", "discovery " + flag + " 30m --domain x"},
		{"discovery " + flag + "=1800s --domain x", "30m", "discovery " + flag + "=1800s --domain x"},
		{"discovery " + flag + " 30m --domain x", "1m", "discovery --domain x " + flag + " 1m"},
		{"discovery " + flag + "=30m --domain x", "1m", "discovery --domain x " + flag + " 1m"},
		{"discovery " + flag + " 30m " + flag + "=5m", "none", "discovery"},
		{"discovery", "none", "discovery"},
		{"discovery", "1m", "discovery " + flag + " 1m"},
		{"discovery " + flag + " 1m " + flag + "=30m", "1m", "discovery " + flag + " 1m"},
		{"discovery " + flag + " 30m", "installed", "discovery " + flag + " 30m"},
	} {
		container := corev1.Container{Args: strings.Fields(tt.args)}
		setFlags(&container, flags(mesh.LeversOf(record.Cell{"connection_age": tt.level})))
		if !slices.Equal(container.Args, strings.Fields(tt.want)) {
			t.Errorf("%s at %s: %v", tt.args, tt.level, container.Args)
		}
	}
}
