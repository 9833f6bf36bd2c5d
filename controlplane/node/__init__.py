"""A real node for an instance: kubelet, kube-proxy, containerd and DNS in namespaces of their own.

The namespaces belong to one process (``namespaces.py``). The kernel removes them with it, and with
them every mount, interface, rule and container of the node.
"""
