# Prints the GetCallerIdentity request that botocore's own client sends. argv: region, nonce. Keys: AWS_* variables.
import json
import sys

import botocore.session

region, nonce = sys.argv[1:3]
client = botocore.session.get_session().create_client("sts", region_name=region)


def add_nonce(request, **_):
    request.headers["X-Muster-Nonce"] = nonce


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def print_and_leave(request, **_):
    headers = {name: text(value) for name, value in request.headers.items()}
    headers["Host"] = request.url.split("/")[2]
    print(json.dumps({"region": region, "headers": headers, "body": text(request.body)}))
    sys.exit()


client.meta.events.register("before-sign.sts.GetCallerIdentity", add_nonce)
client.meta.events.register("before-send.sts.GetCallerIdentity", print_and_leave)
client.get_caller_identity()
