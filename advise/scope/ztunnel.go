package scope

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ztunnelMembers lists the members of a ztunnel's dump that are counted by owner,
// each with a function that returns the type of configuration and the result of
// the rules for an entry; the key is "" in a list. A ztunnel prints its own model
// of what it was sent: a Service has its workloads as endpoints. See
// istio/ztunnel, src/admin.rs and src/state.rs.
var ztunnelMembers = map[string]func(key string, entry node) (typ string, j judged){
	"workloads": func(_ string, w node) (string, judged) {
		return TypeWorkload, judged{name: namespaced(w), rest: by(workloadOwner(w))}
	},
	"services": func(_ string, s node) (string, judged) {
		host, namespace := s.get("hostname").text(), s.get("namespace").text()
		return TypeWorkload, judged{name: namespace + "/" + host, rest: by(serviceOwner(host, s.get("name").text(), namespace))}
	},
	// Endpoints of Services that the ztunnel does not know yet, by NAMESPACE/HOST.
	"stagedServices": func(key string, _ node) (string, judged) {
		_, host, _ := strings.Cut(key, "/")
		return TypeWorkload, judged{name: key, rest: claim{kind: claimHost, name: host}}
	},
	"policies": func(_ string, p node) (string, judged) {
		return TypeAuthorization, judged{name: namespaced(p), rest: by(ztunnelPolicyOwner(p.get("namespace").text(), p.get("name").text()))}
	},
	"certificates": func(_ string, c node) (string, judged) {
		identity := c.get("identity").text()
		return TypeSecret, judged{name: identity, rest: by(identityOwner(identity))}
	},
}

// isZtunnel reports whether the dump is a ztunnel's: it has members for workloads
// and Services, possibly empty, and nothing of an Envoy.
func (d *dumpReader) isZtunnel() bool {
	return d.sections == 0 && d.seen["workloads"] && d.seen["services"]
}

// ztunnelMember counts the entries of a list or, in dumps of older ztunnels, of an
// object.
func (d *dumpReader) ztunnelMember(member string) error {
	count := func(key string) error {
		r, err := d.entry(member)
		if err != nil {
			return err
		}
		typ, j := ztunnelMembers[member](key, r)
		d.scan.count(typ, false, j, sizes{dump: r.size()}, nil)
		d.resources++
		return nil
	}
	t, err := d.token()
	switch {
	case err != nil:
		return err
	case t == json.Delim('{'):
		return d.members(count)
	case t == json.Delim('['):
		return d.entries(func() error { return count("") })
	}
	return fmt.Errorf("%q is no list: this is not what %s answers", member, d.page)
}

func namespaced(n node) string { return n.get("namespace").text() + "/" + n.get("name").text() }

// workloadOwner returns the owner of a workload. Its uid is
// CLUSTER/GROUP/KIND/NAMESPACE/NAME, possibly with more after it. For a pod, the
// type is that of its controller, or pod unless that is a Deployment, Job or
// CronJob; the workload's name is then not the pod's. See istio.io/istio,
// pilot/pkg/serviceregistry/ambient/workloads.go.
func workloadOwner(w node) Owner {
	o := Owner{Kind: KindWorkload, Namespace: w.get("namespace").text(), Name: w.get("workloadName").text()}
	pod := w.get("name").text()
	uid := strings.Split(w.get("uid").text(), "/")
	kind := map[string]string{"deployment": "Deployment", "cronjob": "CronJob", "job": "Job"}[strings.ToLower(w.get("workloadType").text())]
	switch {
	case len(uid) >= 5 && uid[2] != "Pod" && uid[2] != "" && uid[4] != "":
		return Owner{Kind: uid[2], Namespace: uid[3], Name: uid[4]}
	case kind != "" && o.Name != "":
		o.Kind = kind
	case len(uid) >= 5 && (o.Name == "" || o.Name == pod):
		o.Kind, o.Name = "Pod", pod
	case o.Name == "":
		o.Name = pod
	}
	return o
}

// Names of policies that istiod derives from PeerAuthentications: from a single
// one, or a common name for all strict ones. Names of resources cannot contain
// '_'. See istio.io/istio, pilot/pkg/model/authentication.go.
const (
	strictPolicy    = "istio_converted_static_strict"
	convertedPolicy = "converted_peer_authentication_"
)

func ztunnelPolicyOwner(namespace, name string) Owner {
	if name == strictPolicy {
		return defaults
	}
	if peer, ok := strings.CutPrefix(name, convertedPolicy); ok && peer != "" {
		return Owner{Kind: "PeerAuthentication", Namespace: namespace, Name: peer}
	}
	return Owner{Kind: "AuthorizationPolicy", Namespace: namespace, Name: name}
}

// identityOwner parses spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/ACCOUNT.
func identityOwner(identity string) Owner {
	parts := strings.Split(strings.TrimPrefix(identity, "spiffe://"), "/")
	if len(parts) != 5 || parts[1] != "ns" || parts[3] != "sa" || parts[2] == "" || parts[4] == "" {
		return certificates
	}
	return Owner{Kind: "ServiceAccount", Namespace: parts[2], Name: parts[4]}
}
