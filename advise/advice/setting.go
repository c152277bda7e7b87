package advice

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/study"
)

// setting is how a lever is set.
type setting struct {
	words string // what it does, in an order
	yaml  string
	undo  func(now string) string
}

func (s setting) back(f study.Factor, now string) string {
	if s.undo == nil {
		return "put " + f.Name + " back to what it was"
	}
	return s.undo(now)
}

// deploymentHead begins a manifest that sets one lever of istiod's Deployment, as its
// chart names it. Each lever has a manager of its own: what a manager applied before
// and does not apply now, the API server takes out.
func deploymentHead(f study.Factor) string {
	return "# kubectl apply --server-side --field-manager=tuning-" + strings.ReplaceAll(f.Name, "_", "-") + " -f FILE\n# (with --force-conflicts where the installation sets the same field)\n" +
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: istiod, namespace: istio-system}\n"
}

// The kinds of YAML.
const (
	meshConfigHead = "# merge into the installation's values (helm: meshConfig of the chart istiod; istioctl: spec.meshConfig)\n"
	rollBack       = "kubectl -n istio-system rollout undo deployment/istiod"
)

// settingsOf names what a lever sets: variables of istiod's environment, and fields of
// the mesh configuration.
func settingsOf(f study.Factor) []string {
	switch {
	case f.Lever.Env != "":
		return []string{f.Lever.Env}
	case f.Lever.ProxyMetadata != "":
		return []string{"defaultConfig.proxyMetadata"}
	}
	switch f.Name {
	case study.FactorExportTo:
		return []string{"defaultServiceExportTo", "defaultVirtualServiceExportTo", "defaultDestinationRuleExportTo"}
	case study.FactorDiscoverySelectors:
		return []string{"discoverySelectors"}
	case study.FactorOutboundPolicy:
		return []string{"outboundTrafficPolicy"}
	}
	return nil
}

// settingOf is how a lever is set to a level.
func settingOf(f study.Factor, level string, e *Evidence) setting {
	switch {
	case f.Lever.Env != "":
		return environment(f, level, e)
	case f.Lever.ProxyMetadata != "":
		return setting{words: "Set " + f.Lever.ProxyMetadata + " of all sidecars to " + level,
			yaml: meshConfigHead + fmt.Sprintf("meshConfig:\n  defaultConfig:\n    proxyMetadata: {%s: %q}\n", f.Lever.ProxyMetadata, level)}
	}
	switch f.Name {
	case study.FactorIstiodCPU, study.FactorIstiodMemory, study.FactorIstiodCPURequest, study.FactorIstiodMemRequest:
		return resources(f, level)
	case study.FactorConnectionAge:
		return setting{words: "Let connections to istiod become " + level + " old (a connection that ends may be made to another replica)",
			yaml: "# merge into the installation's values (helm: of the chart istiod; istioctl: spec.values.pilot)\nkeepaliveMaxServerConnectionAge: " + level + "\n"}
	case study.FactorIstiodReplicas:
		return setting{words: "Run " + level + " replicas of istiod (where an autoscaler sets their number, raise its minReplicas)",
			yaml: deploymentHead(f) + "spec: {replicas: " + level + "}\n",
			undo: func(now string) string {
				return "kubectl -n istio-system scale deployment/istiod --replicas=" + orUsual(now, f)
			}}
	case study.FactorSidecarScope:
		return setting{words: "Give proxies the configuration that they need by a Sidecar resource of scope " + level +
			" (this one lets in no host of another namespace than istio-system: meshtrial scope --lab cluster --generate DIR makes those of who calls whom)",
			yaml: e.rooted(sidecarHead) + sidecar, undo: func(string) string { return e.rooted("kubectl -n istio-system delete sidecar default") }}
	case study.FactorExportTo:
		text := "Show Services, VirtualServices and DestinationRules in " + level + " where they do not say otherwise"
		if level == "." {
			text += " (first those that gateways or other namespaces use must say so, Services by the annotation networking.istio.io/exportTo: no gateway of another namespace reaches the rest)"
		}
		return setting{words: text,
			yaml: meshConfigHead + fmt.Sprintf("meshConfig:\n  defaultServiceExportTo: [%q]\n  defaultVirtualServiceExportTo: [%q]\n  defaultDestinationRuleExportTo: [%q]\n", level, level, level)}
	case study.FactorDiscoverySelectors:
		return setting{words: "Let istiod watch only the namespaces with " + level, yaml: meshConfigHead + selectors(level)}
	case study.FactorOutboundPolicy:
		return setting{words: "Set outboundTrafficPolicy to " + level, yaml: meshConfigHead + "meshConfig:\n  outboundTrafficPolicy: {mode: " + level + "}\n"}
	}
	return setting{words: "Set " + f.Name + " to " + level}
}

// environment is a variable of istiod's environment. The level that istiod has where
// the variable is absent is written as the default that this istiod says it has.
func environment(f study.Factor, level string, e *Evidence) setting {
	name, value := f.Lever.Env, level
	if e.Known != nil {
		if v, ok := e.Known.Variable(name); ok && level == study.LevelDefault {
			value = v.Default
		}
	}
	yaml := ""
	if value != study.LevelDefault {
		yaml = deploymentHead(f) + fmt.Sprintf("spec:\n  template:\n    spec:\n      containers:\n      - name: discovery\n        env: [{name: %s, value: %q}]\n", name, value)
	}
	text := fmt.Sprintf("Set %s=%s in istiod's environment", name, value)
	if level == study.LevelDefault {
		text = fmt.Sprintf("Take %s out of istiod's environment, or set it to what istiod has built in", name)
	}
	return setting{words: text, yaml: yaml, undo: func(now string) string {
		switch now {
		case "", study.LevelInstalled:
			return rollBack
		case study.LevelDefault, study.LevelNone:
			return "kubectl -n istio-system set env deployment/istiod " + name + "-"
		}
		return "kubectl -n istio-system set env deployment/istiod " + name + "=" + now
	}}
}

// selectors are the namespaces that istiod watches, by a label that they have or do not
// have.
func selectors(level string) string {
	if key, value, not := strings.Cut(level, "!="); not {
		return fmt.Sprintf("meshConfig:\n  discoverySelectors:\n  - matchExpressions:\n    - {key: %q, operator: NotIn, values: [%q]}\n", key, value)
	}
	key, value, _ := strings.Cut(level, "=")
	return fmt.Sprintf("meshConfig:\n  discoverySelectors:\n  - matchLabels: {%q: %q}\n", key, value)
}

func resources(f study.Factor, level string) setting {
	resource, part := "cpu", "limits"
	if f.Name == study.FactorIstiodMemory || f.Name == study.FactorIstiodMemRequest {
		resource = "memory"
	}
	if f.Name == study.FactorIstiodCPURequest || f.Name == study.FactorIstiodMemRequest {
		part = "requests"
	}
	s := setting{words: fmt.Sprintf("Set istiod's %s %s to %s", resource, strings.TrimSuffix(part, "s"), level), undo: func(string) string { return rollBack }}
	if level == study.LevelNone {
		s.words = fmt.Sprintf("Take istiod's %s %s away", resource, strings.TrimSuffix(part, "s"))
		return s
	}
	s.yaml = deploymentHead(f) + fmt.Sprintf("spec:\n  template:\n    spec:\n      containers:\n      - name: discovery\n        resources: {%s: {%s: %q}}\n", part, resource, level)
	return s
}

// sidecarHead and sidecar are the Sidecar that Istio's documentation advises for a whole
// mesh.
const sidecarHead = `# kubectl apply -f FILE; add each host of another namespace that workloads call
apiVersion: networking.istio.io/v1
kind: Sidecar
# for the whole mesh in its root namespace (rootNamespace of the mesh configuration) alone
metadata: {name: default, namespace: istio-system}
`

const sidecar = `spec:
  egress:
  - hosts: ["./*", "istio-system/*"]
`

func orUsual(now string, f study.Factor) string {
	if now == "" || now == study.LevelInstalled {
		return f.Usual
	}
	return now
}
