package site

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
)

// FuzzLeftovers: whatever stands in the note of a namespace whose run nobody
// knows, it counts as left, and never as certainly dead unless the note is of this
// boot: what is dead is removed.
func FuzzLeftovers(f *testing.F) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		f.Fatal(err)
	}
	boot := strings.TrimSpace(string(text))
	for _, note := range []string{"", "{", "null", "7", `{"pid": 1}`, `{"pid": -1, "boot_id": "` + boot + `"}`, `{"host": "a", "boot": "b", "pid": 99999999999999999999}`,
		`{"pid": 4194304, "boot": "x", "pid_namespace": "pid:[1]", "start_ticks": 1}`} {
		f.Add(note)
	}
	f.Fuzz(func(t *testing.T, note string) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: NamespacePrefix + "x", Labels: map[string]string{RunLabel: "x"},
			Annotations: map[string]string{ownerAnnotation: note}}}
		left, err := Leftovers(t.Context(), fakecluster.New(ns))
		if err != nil {
			t.Fatal(err)
		}
		mine := strings.Contains(note, boot)
		if len(left) != 1 && !mine {
			t.Errorf("%q: its run counts as alive", note)
		}
		for _, l := range left {
			if l.Dead && !mine {
				t.Errorf("%q: its run counts as dead", note)
			}
			if l.Namespace != ns.Name || l.Run != "x" {
				t.Errorf("%q: %+v", note, l)
			}
		}
	})
}
