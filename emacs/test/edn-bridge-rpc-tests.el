;;; edn-bridge-rpc-tests.el --- Tests of connections  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)

(defun edn-bridge-rpc-tests-events (bytes size)
  "Return the events in BYTES, received in chunks of SIZE."
  (edn-bridge-test-with-connection (conn _sent events)
    (edn-bridge-test-feed conn bytes size)
    (should-not (edn-bridge-rpc-connection-pieces conn))
    (nreverse events)))

(ert-deftest edn-bridge-rpc-takes-frames-however-they-are-split ()
  (let* ((bytes (edn-bridge-test-bytes "turn.edn"))
         (whole (edn-bridge-rpc-tests-events bytes nil)))
    (should (= (length whole) 5))
    (should (equal (plist-get (cdr (nth 1 whole)) :text) "Grüße, 世界"))
    (dolist (size '(1 2 3 7 64 4096))
      (should (equal whole (edn-bridge-rpc-tests-events bytes size))))
    (dotimes (split (length bytes))
      (edn-bridge-test-with-connection (conn _sent events)
        (edn-bridge-rpc--receive conn (substring bytes 0 split))
        (edn-bridge-test-dispatch conn)
        (edn-bridge-rpc--receive conn (substring bytes split))
        (edn-bridge-test-dispatch conn)
        (should (equal whole (nreverse events)))))))

(ert-deftest edn-bridge-rpc-takes-recorded-frames-split-at-every-byte ()
  (edn-bridge-test-with-connection (conn _sent events)
    (setf (edn-bridge-rpc-connection-plist-frames conn) t)
    (dolist (line (split-string (edn-bridge-test-bytes "tools.edn") "\n" t))
      (let ((frame (edn-bridge-edn-read-plist-bytes line))
            (line (concat line "\n")))
        (dotimes (split (length line))
          (setq events nil)
          (setf (edn-bridge-rpc-connection-seq conn)
                (1- (plist-get frame :seq)))
          (edn-bridge-rpc--receive conn (substring line 0 split))
          (edn-bridge-rpc--receive conn (substring line split))
          (edn-bridge-test-dispatch conn)
          (should (equal events (list (cons (plist-get frame :event)
                                            (plist-get frame :data))))))))))

(ert-deftest edn-bridge-rpc-tells-of-events-that-are-missing ()
  (edn-bridge-test-with-connection (conn _sent events)
    (let ((gaps nil))
      (setf (edn-bridge-rpc-connection-on-gap conn)
            (lambda (_conn) (push (length events) gaps)))
      (dolist (seq '(1 2 4 5 9 9 3 4))
        (edn-bridge-test-feed
         conn (format "{:kind :event :event \"a\" :seq %d :data {}}\n" seq)))
      (should (= (length events) 8))
      ;; Before the events after which they are missed.
      (should (equal (nreverse gaps) '(2 4))))))

(ert-deftest edn-bridge-rpc-answers-each-request-once ()
  (edn-bridge-test-with-connection (conn sent _events)
    (let ((answers nil))
      (edn-bridge-rpc-request conn "ping" nil
                              :on-success (lambda (data) (push data answers)))
      (edn-bridge-rpc-request conn "fork" '(:entry-id "x")
                              :on-error (lambda (frame) (push frame answers)))
      (should (equal (mapcar (lambda (frame) (plist-get frame :id)) sent)
                     '("2" "1")))
      (edn-bridge-test-feed
       conn (concat "{:kind :error :id \"2\" :op \"fork\" :error-code "
                    "\"request/not-found\" :error-message \"No entry\"}\n"
                    "{:kind :response :id \"1\" :op \"ping\" :ok true "
                    ":data {:pong true}}\n"
                    "{:kind :response :id \"1\" :op \"ping\" :ok true "
                    ":data {:pong false}}\n"))
      (should (equal (nth 0 answers) '(:pong t)))
      (should (equal (plist-get (nth 1 answers) :error-code)
                     "request/not-found"))
      (should (= (length answers) 2))
      (should (zerop (hash-table-count
                      (edn-bridge-rpc-connection-pending conn)))))))

(ert-deftest edn-bridge-rpc-fails-what-is-pending-when-it-closes ()
  (edn-bridge-test-with-connection (conn _sent _events)
    (let ((codes nil)
          (reasons nil))
      (setf (edn-bridge-rpc-connection-on-close conn)
            (lambda (_conn reason) (push reason reasons)))
      (edn-bridge-rpc-request
       conn "ping" nil
       :on-error (lambda (frame) (push (plist-get frame :error-code) codes)))
      (edn-bridge-rpc--closed conn "gone")
      (edn-bridge-rpc--closed conn "gone again")
      (edn-bridge-rpc-request
       conn "ping" nil
       :on-error (lambda (frame) (push (plist-get frame :error-code) codes)))
      (should (equal codes '("client/closed" "client/closed")))
      (should (equal reasons '("gone"))))))

(ert-deftest edn-bridge-rpc-handler-that-asks-is-an-error ()
  (edn-bridge-test-with-connection (conn _sent _events)
    (let* ((outcomes nil)
           (ask (lambda (place)
                  (push (cons place
                              (condition-case err
                                  (read-string "What? ")
                                (error (car err))))
                        outcomes)))
           (edn-bridge-rpc-log-functions
            (list (lambda (_conn direction _text)
                    (when (eq direction 'in) (funcall ask 'log))))))
      (setf (edn-bridge-rpc-connection-on-event conn)
            (lambda (&rest _) (funcall ask 'event))
            (edn-bridge-rpc-connection-on-gap conn)
            (lambda (&rest _) (funcall ask 'gap))
            (edn-bridge-rpc-connection-on-batch conn)
            (lambda (&rest _) (funcall ask 'batch))
            (edn-bridge-rpc-connection-on-close conn)
            (lambda (&rest _) (funcall ask 'close)))
      (dolist (op '("ping" "fork" "abort"))
        (edn-bridge-rpc-request conn op nil
                                :on-success (lambda (_) (funcall ask 'response))
                                :on-error (lambda (_) (funcall ask 'error))))
      (edn-bridge-test-feed
       conn (concat "{:kind :event :event \"a\" :seq 2 :data {}}\n"
                    "{:kind :response :id \"1\" :op \"ping\" :ok true :data {}}\n"
                    "{:kind :error :id \"2\" :op \"fork\" :error-code \"a/b\" "
                    ":error-message \"No\"}\n"))
      (edn-bridge-rpc--closed conn "gone")
      (should (equal (mapcar #'car (reverse outcomes))
                     '(log gap event log response log error batch
                       error close)))
      (dolist (outcome outcomes)
        (should (eq (cdr outcome) 'inhibited-interaction))))))

(ert-deftest edn-bridge-rpc-asks-the-user-later ()
  (edn-bridge-test-with-connection (conn _sent _events)
    (let ((answer nil)
          (debug-on-error nil)
          (debug-on-quit nil)
          (inhibit-message t))
      (setf (edn-bridge-rpc-connection-on-event conn)
            (lambda (&rest _)
              (edn-bridge-rpc-later
               (lambda ()
                 (setq answer (list inhibit-interaction (buffer-name)))))))
      (with-temp-buffer
        (rename-buffer "asking")
        (edn-bridge-test-feed
         conn "{:kind :event :event \"a\" :seq 1 :data {}}\n")
        (should-not answer)
        (edn-bridge-test-wait answer)
        (should (equal answer '(nil "asking")))
        ;; Neither an error nor a quit there comes out of the timer.
        (edn-bridge-rpc-later (lambda () (error "No")))
        (edn-bridge-rpc-later (lambda () (signal 'quit nil)))
        (setq answer nil)
        (edn-bridge-rpc-later (lambda () (setq answer t)))
        (edn-bridge-test-wait answer)))))

(ert-deftest edn-bridge-rpc-goes-on-after-what-it-cannot-read ()
  (edn-bridge-test-with-connection (conn _sent events)
    (let* ((notes nil)
           (edn-bridge-rpc-log-functions
            (list (lambda (_conn direction text)
                    (when (eq direction 'note)
                      (push text notes))))))
      (edn-bridge-test-feed
       conn (concat "\n{:kind :event\n}}}\n{:kind :later :x 1}\n"
                    "{:kind :event :event \"new/topic\" :seq 1 "
                    ":data {:unknown-key 1}}\n"))
      (should (equal events '(("new/topic" :unknown-key 1))))
      (should (= (length notes) 4)))))

(ert-deftest edn-bridge-rpc-goes-on-after-a-handler-that-fails ()
  (edn-bridge-test-with-connection (conn _sent _events)
    (let ((seen nil)
          (debug-on-error nil)
          (inhibit-message t))
      (setf (edn-bridge-rpc-connection-on-event conn)
            (lambda (_conn topic _data)
              (push topic seen)
              (error "No")))
      (edn-bridge-test-feed
       conn (concat "{:kind :event :event \"a\" :seq 1 :data {}}\n"
                    "{:kind :event :event \"b\" :seq 2 :data {}}\n"))
      (should (equal seen '("b" "a"))))))

(ert-deftest edn-bridge-rpc-turns-to-plist-frames-after-the-handshake ()
  (edn-bridge-test-with-connection (conn sent events)
    (setf (edn-bridge-rpc-connection-state conn) 'starting)
    (edn-bridge-rpc--handshake conn "test" '("plist-frames" "interactor"))
    (should (equal (plist-get (plist-get (plist-get (car sent) :params)
                                         :client-info)
                              :features)
                   ["plist-frames" "interactor"]))
    (edn-bridge-test-feed
     conn (concat "{:kind :response :id \"1\" :op \"handshake\" :ok true :data "
                  "{:server-info {:protocol-version \"1.0\" :features "
                  "[\"plist-frames\" \"newer\"]}}}\n"
                  "(:kind :event :event \"a\" :seq 1 :data (:b :false))\n"))
    (should (edn-bridge-rpc-ready-p conn))
    (should (equal (edn-bridge-rpc-connection-features conn) '("plist-frames")))
    (should (equal events '(("a" :b :false))))))

(ert-deftest edn-bridge-rpc-dispatches-nothing-once-closed ()
  (edn-bridge-test-with-connection (conn _sent events)
    (edn-bridge-rpc--receive
     conn "{:kind :event :event \"a\" :seq 1 :data {}}\n{:kind :ev")
    (edn-bridge-rpc--closed conn "gone")
    (edn-bridge-rpc--receive
     conn "ent}\n{:kind :event :event \"b\" :seq 2 :data {}}\n")
    (edn-bridge-rpc--dispatch conn)
    (edn-bridge-rpc--ended conn nil)
    (should-not events)
    (should-not (edn-bridge-rpc-connection-timer conn))))

(ert-deftest edn-bridge-rpc-acknowledges-what-is-shown-where-asked ()
  (edn-bridge-test-with-connection (conn sent _events)
    (let ((events (mapconcat
                   (lambda (seq)
                     (format "{:kind :event :event \"a\" :seq %d :data {}}\n"
                             seq))
                   (number-sequence 1 150) "")))
      (edn-bridge-test-feed conn events)
      (should-not sent)
      (setf (edn-bridge-rpc-connection-features conn) '("flow-credit"))
      (edn-bridge-test-feed conn events)
      (should (equal (plist-get (car sent) :op) "ack"))
      (should (equal (plist-get (car sent) :params) '(:seq 150))))))

(ert-deftest edn-bridge-rpc-keeps-the-order-when-a-handler-waits ()
  (edn-bridge-test-with-connection (conn _sent _events)
    (let ((seen nil))
      (setf (edn-bridge-rpc-connection-on-event conn)
            (lambda (conn topic _data)
              (push topic seen)
              (when (equal topic "a")
                (edn-bridge-rpc--dispatch conn))))
      (edn-bridge-test-feed
       conn (mapconcat (lambda (topic)
                         (format "{:kind :event :event %S :seq 1 :data {}}\n"
                                 topic))
                       '("a" "b" "c") ""))
      (should (equal (nreverse seen) '("a" "b" "c"))))))

;;;; The handshake

(defmacro edn-bridge-rpc-tests-with-script (spec &rest body)
  "Run BODY with a connection to a shell script.
SPEC is (CONN REASON LINE...): REASON is bound to why CONN was closed, or
nil; the LINEs are those of the script."
  (declare (indent 1) (debug t))
  (pcase-let ((`(,conn ,reason . ,lines) spec))
    `(let* ((,reason nil)
            (,conn (edn-bridge-rpc-connect
                    :command (list "sh" "-c" (string-join (list ,@lines) "\n"))
                    :on-close (lambda (_conn why) (setq ,reason why)))))
       (unwind-protect (progn ,@body)
         (edn-bridge-rpc-close ,conn)
         (delete-process (edn-bridge-rpc-connection-process ,conn))
         (edn-bridge-rpc-forget ,conn)))))

(ert-deftest edn-bridge-rpc-handshake-lost-is-sent-again ()
  (let ((edn-bridge-rpc--handshake-again 0.1))
    (edn-bridge-rpc-tests-with-script
        (conn reason
              "read lost"
              "read handshake"
              "echo '{:kind :response :id \"1\" :op \"handshake\" :ok true :data {:server-info {:features []}}}'"
              "read rest")
      (edn-bridge-test-wait (edn-bridge-rpc-ready-p conn))
      (should-not reason))))

(ert-deftest edn-bridge-rpc-handshake-unanswered-ends-with-a-reason ()
  (let ((edn-bridge-rpc-request-timeout 0.1)
        (edn-bridge-rpc--grace 0.1))
    ;; It reads nothing, and does not see the end of its input either.
    (edn-bridge-rpc-tests-with-script (conn reason "exec sleep 600")
      (edn-bridge-test-wait reason)
      (should (equal reason
                     "no answer to the handshake within 0.1 seconds"))
      (edn-bridge-test-wait
       (not (process-live-p (edn-bridge-rpc-connection-process conn)))))))

(provide 'edn-bridge-rpc-tests)

;;; edn-bridge-rpc-tests.el ends here
