# The command `redlatch`.
#
#   docker build --tag redlatch .
#   docker run --rm redlatch doctor --node redis://10.0.0.1 --node redis://10.0.0.2 --node redis://10.0.0.3
#
# In an image of yours, take the program alone (it needs glibc):
#
#   COPY --from=redlatch /usr/local/bin/redlatch /usr/local/bin/

FROM rust:1-slim-trixie AS build
WORKDIR /redlatch
COPY . .
RUN cargo build --release --locked --package redlatch-cli

FROM debian:trixie-slim
# The certificates are for rediss://.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home redlatch
COPY --from=build /redlatch/LICENSE-APACHE /redlatch/LICENSE-MIT /usr/local/share/doc/redlatch/
COPY --from=build /redlatch/target/release/redlatch /usr/local/bin/
USER redlatch
ENTRYPOINT ["redlatch"]
