package trial

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// A run that is told to end also has the time that its trial takes to end: if a step ended
// ztunnels, they return on one node after the other.
func TestEnding(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: make([]corev1.Pod, 30)})
	}))
	defer server.Close()
	for step, want := range map[string]time.Duration{
		"remove: {service: back}":                           8 * time.Minute,
		"restart: {of: ztunnel}":                            16*time.Minute + 10*time.Second,
		"process: {of: ztunnel, do: kill}":                  16*time.Minute + 10*time.Second,
		"for: 1s, process: {of: ztunnel, do: pause}":        8 * time.Minute,
		"move: {to: installed}":                             16*time.Minute + 10*time.Second,
		"restart: {service: back}":                          8 * time.Minute,
		"for: 1s, worker: {service: back, set: {cpu: 1ms}}": 8 * time.Minute,
	} {
		plan := studytest.Plan(t, strings.Replace(ambientServices, "timeline: {duration: 5s}", "timeline: {duration: 5s, steps: [{name: one, at: 1s, "+step+"}]}", 1))
		o := &runner.Options{Study: plan.Study, Kind: Kind, Mesh: sitetest.Istio(), Lab: &unprogrammed{url: server.URL}}
		if got, err := runner.Ending(t.Context(), o, plan); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", step, got, err, want)
		}
	}
}
