# The kernel's world in a container: docs/how-to/install.md#a-container-for-the-kernels-world. `make dist` builds the wheel.
FROM debian:13-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates iproute2 nftables procps python3-venv \
 && rm -rf /var/lib/apt/lists/*
COPY target/dist/anabranch-*.whl /tmp/
RUN python3 -m venv /opt/anabranch \
 && /opt/anabranch/bin/pip install --no-cache-dir "$(ls /tmp/anabranch-*.whl)[studies]" \
 && rm /tmp/anabranch-*.whl
ENV PATH=/opt/anabranch/bin:$PATH
WORKDIR /work
ENTRYPOINT ["anabranch"]
CMD ["--help"]
