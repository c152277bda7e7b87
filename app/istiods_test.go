package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOfRevision(t *testing.T) {
	pod := func(revision string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "istiod-" + revision, Labels: map[string]string{"istio.io/rev": revision}}}
	}
	two := []corev1.Pod{pod("stable"), pod("canary"), pod("canary")}
	for _, tt := range []struct {
		name  string
		there []corev1.Pod
		asked string
		want  int
		err   string
	}{
		{"the only one", two[1:], "", 2, ""},
		{"one of several", two, "canary", 2, ""},
		{"several", two, "", 0, "several revisions: canary, stable"},
		{"another", two, "old", 0, "there is no istiod of revision old"},
		{"none at all", nil, "old", 0, ""},
		{"one without a label", []corev1.Pod{{}}, "default", 1, ""},
	} {
		got, err := ofRevision(tt.there, tt.asked)
		if len(got) != tt.want || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %d pods, %v", tt.name, len(got), err)
		}
	}
}

func TestKeepsOnlyIstiodsLines(t *testing.T) {
	pods := []string{"istiod-1"}
	for line, want := range map[string]bool{
		`machine_cpu_cores{boot_id="x"} 2`:                                                   true,
		`container_spec_cpu_quota{container="discovery",pod="istiod-1"} 5`:                   true,
		`container_spec_cpu_quota{container="discovery",pod="istiod-12"} 5`:                  false,
		`container_cpu_cfs_throttled_seconds_total{container="discovery",pod="istiod-1"}  3`: true,
		`container_network_transmit_bytes_total{interface="eth0",pod="istiod-1"} 1`:          true,
		`container_cpu_usage_seconds_total{container="discovery",pod="istiod-1"} 1`:          false, // from the other page
		`container_cpu_usage_seconds_total{container="",cpu="total",id="/",pod=""} 1`:        true,
		`container_memory_working_set_bytes{container="discovery",pod="istiod-1"} 100000`:    false,
	} {
		if got := keepCAdvisor(pods)([]byte(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
	if keep := keepOfPods(pods, "container_cpu_usage_seconds_total"); !keep([]byte(`container_cpu_usage_seconds_total{pod="istiod-1"} 1`)) || keep([]byte(`container_cpu_usage_seconds_total{pod="x"} 1`)) {
		t.Error("containers")
	}
}

// The version of a running istiod is the one its program reports, whatever its image is called.
func TestShortVersion(t *testing.T) {
	for page, want := range map[string]string{
		"1.31-eed52ebb66ad-eed52ebb66ad-Clean": "1.31-eed52ebb66ad", "1.30.0-0a1b2c-Clean\n": "1.30.0", "unknown-unknown-unknown": "unknown",
		"": "", "1.30.0": "", "<html>a-b-c</html>": "",
	} {
		if got, ok := shortVersion(page); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", page, got, ok)
		}
	}
}

// What a pod answers instead of a page is shown on one line, without control characters.
func TestGetRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "\x1b[31mnot\nyet\n")
	}))
	defer server.Close()
	if _, err := get(t.Context(), server.Client(), server.URL+"/metrics?x"); err == nil || err.Error() != `/metrics: 503 Service Unavailable: \x1b[31mnot\nyet` {
		t.Error(err)
	}
}
