package local

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/lab"
)

// metrics-server may read; the only thing that it may make is the question who
// somebody is and what he may, by a role of Kubernetes' own.
func TestMetricsRights(t *testing.T) {
	for document := range strings.SplitSeq(string(metricsRoles()), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if role.Kind != "ClusterRole" {
			continue
		}
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					t.Errorf("it may %s %v", verb, rule.Resources)
				}
			}
			if slices.Contains(rule.Resources, "*") || slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "nodes/proxy") {
				t.Errorf("it may read %v", rule.Resources)
			}
		}
		return
	}
	t.Error("it has no ClusterRole")
}

// The API server reaches metrics-server at the node, and verifies its certificate.
func TestMetricsService(t *testing.T) {
	objects, err := lab.ParseObjects(metricsService("10.254.77.2", []byte("the authority")))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, o := range objects {
		seen[o.GetKind()] = true
		switch o.GetKind() {
		case "APIService":
			spec := o.Object["spec"].(map[string]any)
			bundle, err := base64.StdEncoding.DecodeString(spec["caBundle"].(string))
			if err != nil || string(bundle) != "the authority" || spec["insecureSkipTLSVerify"] != nil {
				t.Errorf("%v: the certificate is not verified by the authority given (%v)", spec, err)
			}
			service := spec["service"].(map[string]any)
			if name := service["name"].(string) + "." + service["namespace"].(string) + ".svc"; name != metricsName {
				t.Errorf("the API server asks %s, the certificate is %s's", name, metricsName)
			}
		case "EndpointSlice":
			address := o.Object["endpoints"].([]any)[0].(map[string]any)["addresses"].([]any)[0]
			if address != "10.254.77.2" || o.GetLabels()["kubernetes.io/service-name"] != metricsServer {
				t.Errorf("%v", o)
			}
		}
	}
	for _, kind := range []string{"Service", "EndpointSlice", "APIService"} {
		if !seen[kind] {
			t.Errorf("no %s", kind)
		}
	}
}

// A lab without metrics-server has no program of it.
func TestProgramsOf(t *testing.T) {
	if slices.Contains(programsOf(false), metricsServer) || !slices.Contains(programsOf(true), metricsServer) || len(programsOf(true)) != len(programsOf(false))+1 {
		t.Errorf("%v and %v", programsOf(false), programsOf(true))
	}
}
