# Your image, on Sluice: the two lines COPY and ENV are all that it takes. Programs in it then use this library, whichever they
# bring along. It needs no root and no place to write. `--build-arg YOURS=NAME` names the image.
ARG YOURS
ARG SLUICE=localhost/sluice
FROM ${SLUICE} AS sluice
FROM ${YOURS}
COPY --from=sluice /opt/sluice /opt/sluice
ENV LD_PRELOAD=/opt/sluice/lib/libcufile.so.0 CUFILE_ENV_PATH_JSON=/opt/sluice/share/sluice/cufile.json
