package local

import (
	"fmt"
	"strings"
)

// kwokStages simulates nodes and pods: a new node becomes ready; a pod on such a node
// runs immediately, completes if it belongs to a Job, and disappears when deleted.
const kwokStages = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ["True"]}
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      {{ range NodeConditions }}
      - type: {{ .type | Quote }}
        status: {{ .status | Quote }}
        reason: {{ .reason | Quote }}
        message: {{ .message | Quote }}
        lastHeartbeatTime: {{ $now | Quote }}
        lastTransitionTime: {{ $now | Quote }}
      {{ end }}
      addresses:
      - {type: InternalIP, address: {{ NodeIP | Quote }}}
      - {type: Hostname, address: {{ NodeName | Quote }}}
      allocatable:
      {{ with .status.allocatable }}
      {{ YAML . 1 }}
      {{ else }}
        {cpu: "1000", memory: 1Ti, pods: "10000"}
      {{ end }}
      capacity:
      {{ with .status.capacity }}
      {{ YAML . 1 }}
      {{ else }}
        {cpu: "1000", memory: 1Ti, pods: "10000"}
      {{ end }}
      nodeInfo:
        {architecture: amd64, bootID: "", containerRuntimeVersion: kwok, kernelVersion: kwok, kubeProxyVersion: kwok,
         kubeletVersion: kwok, machineID: "", operatingSystem: linux, osImage: kwok, systemUUID: ""}
      phase: Running
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Pending]}
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ["True"]}
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      {{ range $type := list "Initialized" "ContainersReady" "Ready" }}
      - {type: {{ $type }}, status: "True", lastTransitionTime: {{ $now | Quote }}}
      {{ end }}
      {{ range .spec.readinessGates }}
      - {type: {{ .conditionType | Quote }}, status: "True", lastTransitionTime: {{ $now | Quote }}}
      {{ end }}
      containerStatuses:
      {{ range .spec.containers }}
      - {name: {{ .name | Quote }}, image: {{ .image | Quote }}, ready: true, started: true, restartCount: 0, state: {running: {startedAt: {{ $now | Quote }}}}}
      {{ end }}
      initContainerStatuses:
      {{ range .spec.initContainers }}
      {{ if eq .restartPolicy "Always" }}
      - {name: {{ .name | Quote }}, image: {{ .image | Quote }}, ready: true, started: true, restartCount: 0, state: {running: {startedAt: {{ $now | Quote }}}}}
      {{ else }}
      - {name: {{ .name | Quote }}, image: {{ .image | Quote }}, ready: true, restartCount: 0, state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}}
      {{ end }}
      {{ end }}
      {{ with NodeIPWith .spec.nodeName }}
      hostIP: {{ . | Quote }}
      {{ end }}
      {{ with PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) }}
      podIP: {{ . | Quote }}
      podIPs: [{ip: {{ . | Quote }}}]
      {{ end }}
      phase: Running
      startTime: {{ $now | Quote }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-complete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Running]}
    - {key: '.metadata.ownerReferences.[].kind', operator: In, values: [Job]}
  next:
    statusTemplate: |
      {{ $now := Now }}
      containerStatuses:
      {{ range .spec.containers }}
      - {name: {{ .name | Quote }}, image: {{ .image | Quote }}, ready: false, started: false, restartCount: 0, state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}}
      {{ end }}
      phase: Succeeded
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-delete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
  next: {delete: true}
`

// coreDNS returns the objects of the cluster's DNS. Every outside name has a fixed
// answer from inside the lab; names below slow.test are answered after a delay, names
// below fail.test with SERVFAIL. They have separate blocks because the template plugin
// would run before kubernetes. With several nodes DNS runs on two, so it survives the
// loss of one.
func coreDNS(image, clusterIP string, nodes int) []byte {
	replicas, affinity := "1", "{}"
	if nodes > 1 {
		replicas, affinity = "2", coreDNSApart
	}
	return []byte(strings.NewReplacer("IMAGE", image, "CLUSTERIP", clusterIP, "ANSWER", outsideAddress, "DELAY", slowDelay,
		"REPLICAS", replicas, "AFFINITY", affinity).Replace(coreDNSYAML))
}

// outsideAddress is the DNS answer for names outside the cluster: an address reserved
// for documentation, for which the lab immediately reports that it is unreachable.
const (
	outsideAddress = "203.0.113.1"
	slowDelay      = "2s"
)

// coreDNSApart keeps two DNS pods off the same node.
const coreDNSApart = "{podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
	"[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {k8s-app: kube-dns}}}]}}"

const coreDNSYAML = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:coredns}
rules:
- {apiGroups: [""], resources: [services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:coredns}
subjects: [{kind: ServiceAccount, name: coredns, namespace: kube-system}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
    cluster.local:53 in-addr.arpa:53 {
        errors
        ready
        kubernetes cluster.local in-addr.arpa {
            pods insecure
            fallthrough in-addr.arpa
            ttl 30
        }
    }
    slow.test:53 {
        errors
        erratic {
            drop 0
            truncate 0
            delay 1 DELAY
        }
    }
    fail.test:53 {
        template ANY ANY {
            rcode SERVFAIL
        }
    }
    .:53 {
        errors
        template IN A {
            answer "{{ .Name }} 60 IN A ANSWER"
        }
        template ANY ANY {
            rcode NOERROR
        }
    }
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      serviceAccountName: coredns
      priorityClassName: system-cluster-critical
      dnsPolicy: Default
      affinity: AFFINITY
      containers:
      - name: coredns
        image: IMAGE
        imagePullPolicy: IfNotPresent
        args: [-conf, /etc/coredns/Corefile]
        resources: {requests: {cpu: 10m, memory: 32Mi}}
        ports:
        - {name: dns, containerPort: 53, protocol: UDP}
        - {name: dns-tcp, containerPort: 53, protocol: TCP}
        volumeMounts: [{name: config, mountPath: /etc/coredns, readOnly: true}]
        readinessProbe: {httpGet: {path: /ready, port: 8181}, periodSeconds: 1}
      volumes: [{name: config, configMap: {name: coredns}}]
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns, kubernetes.io/name: CoreDNS}}
spec:
  clusterIP: CLUSTERIP
  selector: {k8s-app: kube-dns}
  ports:
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns-tcp, port: 53, protocol: TCP}
`

// nodeRoles returns the bindings that the node's own users need beyond Kubernetes'
// built-in ones.
func nodeRoles() []byte {
	return fmt.Appendf(nil, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: meshtrial:kubelet-api}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:kubelet-api-admin}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: %[1]s}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: meshtrial:kwok}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch, patch, update]}
- {apiGroups: [""], resources: [nodes/status, pods/status], verbs: [patch, update]}
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch, patch, update, delete]}
- {apiGroups: ["", events.k8s.io], resources: [events], verbs: [create, patch, update]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, watch, create, patch, update, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: meshtrial:kwok}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: meshtrial:kwok}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: %[2]s}]
`, kubeletClientUser, kwokUser)
}
