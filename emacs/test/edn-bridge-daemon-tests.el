;;; edn-bridge-daemon-tests.el --- Chats whose session outlives them  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; With the real program and a daemon of their own, which ends with the
;; test.  EDN_BRIDGE_PROGRAM names the program; without it these are skipped.

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-live-tests)
(require 'edn-bridge-terminal-tests)

(defmacro edn-bridge-daemon-tests-with-daemon (turns &rest body)
  "Run BODY where chats are with a daemon whose model answers with TURNS.
That is the text of a script's turns, in EDN."
  (declare (indent 1) (debug t))
  `(let ((process-environment
          (cons "EDN_BRIDGE_DAEMON=auto" process-environment)))
     (edn-bridge-live-tests-with-program "hello.edn"
       (let ((script (expand-file-name "script" edn-bridge-live-tests-state)))
         (write-region (format "{:turns [%s] :then :cycle}" ,turns)
                       nil script nil 'quiet)
         (setf (cadr (member "--script" edn-bridge-program-args)) script)
         (unwind-protect
             (progn ,@body)
           (edn-bridge-daemon-tests-control "stop" "--now"))))))

(defmacro edn-bridge-daemon-tests-with-chat (turns &rest body)
  "Run BODY in a chat with a daemon whose model answers with TURNS."
  (declare (indent 1) (debug t))
  `(edn-bridge-daemon-tests-with-daemon ,turns
     (with-current-buffer (edn-bridge-chat-buffer)
       (edn-bridge-live-tests-wait-ready)
       ,@body)))

(defun edn-bridge-daemon-tests-control (&rest words)
  "Run the program's command daemon with WORDS and return its output."
  (with-temp-buffer
    (apply #'call-process edn-bridge-live-tests-program nil t nil
           "--state-dir" edn-bridge-live-tests-state "daemon" words)
    (buffer-string)))

(defun edn-bridge-daemon-tests-pid ()
  "Return the daemon's process id, which runs."
  (let ((status (edn-bridge-daemon-tests-control "status")))
    (should (string-match "process \\([0-9]+\\)" status))
    (string-to-number (match-string 1 status))))

(defun edn-bridge-daemon-tests-begin (text)
  "Send TEXT."
  (goto-char (point-max))
  (insert text)
  (edn-bridge-input-send))

(defun edn-bridge-daemon-tests-see (regexp)
  "Wait until the transcript has what REGEXP matches."
  (edn-bridge-test-wait (string-match-p regexp (edn-bridge-test-transcript))))

(defun edn-bridge-daemon-tests-back-p ()
  "Return non-nil if this chat is connected and nothing is missing."
  (and (edn-bridge-rpc-ready-p edn-bridge-chat--conn)
       (eq edn-bridge-chat--conn edn-bridge-chat--followed)
       (not edn-bridge-chat-following)))

(defun edn-bridge-daemon-tests-wait-back ()
  "Wait until this chat, which was away, is told what it missed."
  (edn-bridge-test-wait (edn-bridge-daemon-tests-back-p)))

(defun edn-bridge-daemon-tests-wait-idle ()
  "Wait until no turn is running and nothing is missing."
  (edn-bridge-test-wait (and (edn-bridge-daemon-tests-back-p)
                             (edn-bridge-chat-get :phase)
                             (not (edn-bridge-chat-running-p)))))

(defun edn-bridge-daemon-tests-fresh-view (session)
  "Return the transcript of SESSION in a chat that is opened now."
  (with-current-buffer (edn-bridge-chat-buffer t)
    (edn-bridge-live-tests-wait-ready)
    (edn-bridge-sessions--turn-to (edn-bridge-chat-current) "switch_session"
                                  (list :session-id session))
    (edn-bridge-live-tests-wait-ready)
    (edn-bridge-test-transcript)))

(defmacro edn-bridge-daemon-tests-counting (function &rest body)
  "Run BODY and return how often FUNCTION was called."
  (declare (indent 1) (debug t))
  `(let ((count 0))
     (cl-letf (((symbol-function 'count-it) (lambda (&rest _) (cl-incf count))))
       (advice-add ',function :before #'count-it)
       (unwind-protect (progn ,@body)
         (advice-remove ',function #'count-it)))
     count))

(defun edn-bridge-daemon-tests-until (file)
  "Return a step that runs until there is FILE."
  (format "{:tool-call {:name \"bash\" :arguments {:command \"until [ -e %s ]; do sleep 0.01; done; echo done\"}}}"
          file))

(defun edn-bridge-daemon-tests-lose ()
  "Kill the process of this chat's connection, and wait until it is gone."
  (let ((conn edn-bridge-chat--conn))
    (signal-process (edn-bridge-rpc-connection-process conn) 'SIGKILL)
    (edn-bridge-test-wait (not (edn-bridge-rpc-live-p conn)))))

;;;; Coming back

(ert-deftest edn-bridge-follow-lost-line-goes-on-by-itself ()
  (edn-bridge-daemon-tests-with-chat
      (format "{:steps [{:thinking \"Hm.\"} {:delta \"First.\"}]}
               {:steps [{:delta \"I run it.\"} %s]} {:steps [{:delta \"End\"}]}"
              (edn-bridge-daemon-tests-until "go"))
    (setq edn-bridge-program-args
          (append edn-bridge-program-args '("--yolo")))
    (edn-bridge-chat-reconnect)
    (edn-bridge-live-tests-wait-ready)
    (edn-bridge-live-tests-say "Hi")
    (goto-char (point-min))
    (search-forward "Thought")
    (edn-bridge-messages-toggle-thinking)
    (let ((session edn-bridge-chat--session-id)
          (first (copy-marker (point))))
      (edn-bridge-daemon-tests-begin "Go")
      (edn-bridge-daemon-tests-see "I run it\\.\n\n.*bash")
      (edn-bridge-test-wait edn-bridge-chat-working)
      (insert "my draft")
      (should
       (= 0 (edn-bridge-daemon-tests-counting edn-bridge-messages--rebuild
              (edn-bridge-daemon-tests-lose)
              (should-not (string-search "Disconnected"
                                         (edn-bridge-test-transcript)))
              (edn-bridge-daemon-tests-wait-back)
              (should (edn-bridge-chat-running-p))
              (edn-bridge-daemon-tests-lose)
              (write-region "" nil "go" nil 'quiet)
              (edn-bridge-test-wait
               (not (string-search "streaming"
                                   (edn-bridge-daemon-tests-control "status"))))
              (edn-bridge-daemon-tests-wait-idle))))
      (should (equal edn-bridge-chat--session-id session))
      (should (equal (edn-bridge-transcript-draft) "my draft"))
      (should-not (edn-bridge-messages--thinking-folded-p
                   (save-excursion (goto-char first)
                                   (line-beginning-position))))
      (should (string-match-p "I run it.*\n\n.*bash.*\n\nEnd\n\\'"
                              (edn-bridge-test-transcript)))
      (should (equal (edn-bridge-test-transcript)
                     (edn-bridge-daemon-tests-fresh-view session))))))

(ert-deftest edn-bridge-follow-answer-goes-on-mid-stream ()
  (edn-bridge-daemon-tests-with-chat
      "{:steps [{:thinking \"Hm, \"} {:sleep-ms 700} {:thinking \"well.\"}
                {:delta \"Begin **bo\"} {:sleep-ms 1500} {:delta \"ld** on\"}
                {:sleep-ms 1500} {:delta \" and end.\"}]}"
    (let ((session edn-bridge-chat--session-id))
      (should
       (= 0 (edn-bridge-daemon-tests-counting edn-bridge-messages--rebuild
              (edn-bridge-daemon-tests-begin "Go")
              (edn-bridge-daemon-tests-see "Hm, ")
              (edn-bridge-daemon-tests-lose)
              (edn-bridge-daemon-tests-see "Hm, well\\.\n\nAssistant\nBegin")
              (edn-bridge-chat-reconnect)
              (edn-bridge-daemon-tests-see "bold.* on")
              (should (edn-bridge-chat-running-p))
              (edn-bridge-daemon-tests-lose)
              (edn-bridge-daemon-tests-see "and end")
              (edn-bridge-daemon-tests-wait-idle))))
      (should (equal (edn-bridge-test-transcript)
                     (edn-bridge-daemon-tests-fresh-view session))))))

(ert-deftest edn-bridge-follow-killed-daemon-is-followed-by-a-new-one ()
  (edn-bridge-daemon-tests-with-chat
      "{:steps [{:delta \"First.\"}]}
       {:steps [{:delta \"Begin \"} {:sleep-ms 20000} {:delta \"End\"}]}"
    (edn-bridge-live-tests-say "Hi")
    (let ((session edn-bridge-chat--session-id))
      ;; In quiet: nothing is built again.
      (should
       (= 0 (edn-bridge-daemon-tests-counting edn-bridge-messages--rebuild
              (signal-process (edn-bridge-daemon-tests-pid) 'SIGKILL)
              (edn-bridge-daemon-tests-wait-back))))
      (should (equal edn-bridge-chat--session-id session))
      (edn-bridge-live-tests-say "Hi")
      (edn-bridge-daemon-tests-begin "Again")
      (edn-bridge-daemon-tests-see "Begin")
      ;; In mid turn: what streamed is lost, and that is said.
      (signal-process (edn-bridge-daemon-tests-pid) 'SIGKILL)
      (edn-bridge-daemon-tests-see "\\[\\(Try again\\|Continue\\)\\]")
      (edn-bridge-daemon-tests-wait-idle)
      (should (equal edn-bridge-chat--session-id session))
      (should (string-match-p
               "First\\.\n\nYou\nAgain\n\n[^\n]+\\[\\(Try again\\|Continue\\)\\]\n\\'"
               (edn-bridge-test-transcript))))))

(ert-deftest edn-bridge-follow-question-is-asked-once ()
  (edn-bridge-daemon-tests-with-chat
      "{:steps [{:tool-call {:name \"bash\" :arguments {:command \"touch one\"}}}]}
       {:steps [{:tool-call {:name \"bash\" :arguments {:command \"touch two\"}}}]}
       {:steps [{:delta \"End\"}]}"
    (let ((session edn-bridge-chat--session-id))
      (edn-bridge-daemon-tests-begin "Go")
      (edn-bridge-test-wait edn-bridge-interact--questions)
      (let ((text (edn-bridge-test-transcript)))
        (edn-bridge-daemon-tests-lose)
        (edn-bridge-daemon-tests-wait-back)
        (should (= 1 (edn-bridge-interact-pending)))
        (should (equal text (edn-bridge-test-transcript))))
      (edn-bridge-interact-accept)
      (edn-bridge-test-wait (string-search "touch two"
                                           (edn-bridge-test-transcript)))
      (edn-bridge-test-wait edn-bridge-interact--questions)
      ;; Another chat answers it while this one is away.
      (setq edn-bridge-chat--returns (make-list 3 (float-time)))
      (edn-bridge-daemon-tests-lose)
      (should (string-search "[Reconnect]" (edn-bridge-test-transcript)))
      (with-current-buffer (edn-bridge-chat-buffer t)
        (edn-bridge-live-tests-wait-ready)
        (edn-bridge-sessions--turn-to (edn-bridge-chat-current) "switch_session"
                                      (list :session-id session))
        (edn-bridge-test-wait edn-bridge-interact--questions)
        (edn-bridge-interact-accept)
        (edn-bridge-daemon-tests-see "End"))
      (edn-bridge-chat-reconnect)
      (edn-bridge-daemon-tests-see "End")
      (edn-bridge-daemon-tests-wait-idle)
      (should-not edn-bridge-interact--questions)
      (should (file-exists-p "two"))
      (should (equal (edn-bridge-test-transcript)
                     (edn-bridge-daemon-tests-fresh-view session))))))

(ert-deftest edn-bridge-follow-says-everything-once-over-kills ()
  (edn-bridge-daemon-tests-with-chat "{:steps [{:delta \"So.\"}]}"
    (edn-bridge-live-tests-say "First")
    (let ((texts nil))
      (dotimes (n 16)
        (let ((text (format "Text %d." n)))
          (push text texts)
          (setq edn-bridge-chat--returns nil)
          (goto-char (point-max))
          (insert text)
          (edn-bridge-input-send)
          ;; Between before it is read and after it is answered.
          (dotimes (_ n)
            (accept-process-output
             (edn-bridge-rpc-connection-process edn-bridge-chat--conn) 0.001))
          (edn-bridge-daemon-tests-lose)
          (edn-bridge-test-wait
           (and (edn-bridge-rpc-ready-p edn-bridge-chat--conn)
                (not edn-bridge-chat-following)
                (null edn-bridge-input--lost)
                (null edn-bridge-said--pending)
                (not (edn-bridge-chat-running-p))
                (string-match-p (concat (regexp-quote text) "\n\nAssistant\nSo")
                                (edn-bridge-test-transcript))))))
      (dolist (text texts)
        (should (= 2 (length (split-string (edn-bridge-test-transcript)
                                           (regexp-quote text))))))
      (should (equal (edn-bridge-test-transcript)
                     (edn-bridge-daemon-tests-fresh-view
                      edn-bridge-chat--session-id))))))

(ert-deftest edn-bridge-follow-other-history-is-built-again ()
  (edn-bridge-daemon-tests-with-chat "{:steps [{:delta \"So.\"}]}"
    (edn-bridge-live-tests-say "Hi")
    (setcdr edn-bridge-chat--place "e-other")
    (should
     (= 1 (edn-bridge-daemon-tests-counting edn-bridge-messages--rebuild
            (edn-bridge-daemon-tests-lose)
            (edn-bridge-daemon-tests-wait-back))))
    (should (equal (edn-bridge-test-transcript)
                   "You\nHi\n\nAssistant\nSo.\n"))))

(ert-deftest edn-bridge-follow-gives-up-and-says-so ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((tried 0)
          (process (start-process "x" nil "sh" "-c" "exit 75")))
      (edn-bridge-test-wait (not (process-live-p process)))
      (setf (edn-bridge-rpc-connection-process conn) process)
      (setq edn-bridge-chat--outlives t)
      (cl-letf (((symbol-function 'edn-bridge-chat-connect)
                 (lambda ()
                   (cl-incf tried)
                   (edn-bridge-chat--on-close conn "status 75"))))
        (edn-bridge-chat--on-close conn "status 75")
        (should-not (string-search "Disconnected" (edn-bridge-test-transcript)))
        (edn-bridge-test-wait
         (string-search "Disconnected: status 75 [Reconnect]"
                        (edn-bridge-test-transcript)))
        (should (= tried 3))))))

(ert-deftest edn-bridge-follow-told-twice-is-shown-once ()
  (edn-bridge-test-with-chat (conn sent)
    (cl-flet ((tell (topic &rest data)
                (apply #'edn-bridge-test-event conn topic :session-id "s1"
                       :turn-id "t1" data)))
      (tell "session/updated" :is-streaming t :offset 2)
      (tell "assistant/delta" :text "Begin " :call 1 :at 0 :offset 2)
      (should (equal edn-bridge-chat--place '(2)))
      ;; It fell behind; the rest of the answer begins anew.
      (setq edn-bridge-chat--followed conn)
      (tell "diagnostic" :code "delivery/behind" :message "Behind")
      (should edn-bridge-chat-following)
      (tell "assistant/delta" :text "Begin and" :call 1 :at 0 :offset 2)
      (tell "session/synced" :offset 2)
      (should-not edn-bridge-chat-following)
      (should (equal (edn-bridge-test-transcript) "Assistant\nBegin and"))
      ;; An entry is complete when its event is shown, too.
      (let ((entry '(:id "e3" :type :message
                         :message (:id "e3" :role "assistant"
                                       :content "Begin and end."))))
        (tell "session/entry" :entry entry :offset 3)
        (should (equal edn-bridge-chat--place '(2)))
        (tell "diagnostic" :code "delivery/behind" :message "Behind")
        (tell "session/entry" :entry entry :offset 3)
        (tell "session/synced" :offset 3))
      (should (equal (edn-bridge-test-transcript)
                     "Assistant\nBegin and end.\n"))
      (should (equal edn-bridge-chat--place '(3 . "e3")))
      (setq sent nil)
      ;; A part that no entry completes is built again.
      (tell "assistant/delta" :text "New" :call 2 :at 0 :offset 3)
      (tell "diagnostic" :code "delivery/behind" :message "Behind")
      (tell "session/updated" :is-streaming :false :offset 3)
      (tell "session/synced" :offset 3)
      (should edn-bridge-chat--cut)
      (should (equal (plist-get (car sent) :op) "subscribe"))
      (should (= (plist-get (plist-get (plist-get (car sent) :params) :since)
                            :offset)
                 most-positive-fixnum)))))

;;;; Leaving

(ert-deftest edn-bridge-chat-leaving-asks-only-for-what-ends ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "session/updated" :session-id "s1"
                           :is-streaming t)
    (let ((noninteractive nil)
          (asked nil)
          (said nil))
      (cl-letf (((symbol-function 'yes-or-no-p)
                 (lambda (text) (push text asked) nil))
                ((symbol-function 'message)
                 (lambda (format &rest args)
                   (push (apply #'format format args) said))))
        (should-not (edn-bridge-chat--confirm-exit))
        (should-not (edn-bridge-chat--confirm-kill))
        (should (= 2 (length asked)))
        (should-not said)
        (setq edn-bridge-chat--outlives t)
        (should (edn-bridge-chat--confirm-exit))
        (should (string-match-p "The turn goes on; M-x edn-bridge" (car said)))
        (should (edn-bridge-chat--confirm-kill))
        (should (string-match-p "The turn goes on; M-x edn-bridge" (car said)))
        (should (= 2 (length asked)))
        (setq said nil)
        (edn-bridge-test-event conn "session/updated" :session-id "s1"
                               :is-streaming :false)
        (should (edn-bridge-chat--confirm-exit))
        (should (edn-bridge-chat--confirm-kill))
        (should-not said)))))

(ert-deftest edn-bridge-chat-killed-chat-leaves-its-turn ()
  (edn-bridge-daemon-tests-with-daemon
      (format "{:steps [%s]} {:steps [{:delta \"End\"}]}"
              (edn-bridge-daemon-tests-until "go"))
    (setq edn-bridge-program-args
          (append edn-bridge-program-args '("--yolo")))
    (let (session)
      (with-current-buffer (edn-bridge-chat-buffer)
        (edn-bridge-live-tests-wait-ready)
        (edn-bridge-daemon-tests-begin "Go")
        (edn-bridge-test-wait edn-bridge-chat-working)
        (setq session edn-bridge-chat--session-id)
        (kill-buffer))
      (edn-bridge-test-wait
       (string-search "(0 clients)" (edn-bridge-daemon-tests-control "status")))
      (write-region "" nil "go" nil 'quiet)
      (with-current-buffer (edn-bridge-chat-buffer)
        (edn-bridge-live-tests-wait-ready)
        (edn-bridge-sessions-switch session)
        (edn-bridge-daemon-tests-see "\n\nEnd\n\\'")))))

;;;; What works and waits

(defconst edn-bridge-daemon-tests-asks
  "{:steps [{:tool-call {:name \"bash\" :arguments {:command \"touch one\"}}}]}
   {:steps [{:delta \"End\"}]}"
  "Turns of which the first asks.")

(ert-deftest edn-bridge-work-new-chat-offers-what-waits ()
  (edn-bridge-daemon-tests-with-daemon edn-bridge-daemon-tests-asks
    (let (session)
      (with-current-buffer (edn-bridge-chat-buffer)
        (edn-bridge-live-tests-wait-ready)
        (edn-bridge-daemon-tests-begin "Fix the cart")
        (edn-bridge-test-wait edn-bridge-interact--questions)
        (setq session edn-bridge-chat--session-id)
        (kill-buffer))
      ;; In another project it is mentioned.
      (let ((default-directory (file-name-as-directory
                                (expand-file-name "other" default-directory))))
        (make-directory default-directory)
        (with-current-buffer (edn-bridge-chat-buffer)
          (edn-bridge-live-tests-wait-ready)
          (edn-bridge-test-wait
           (string-match-p
            "^In .*: Fix the cart — waits for an approval  \\[Open\\]$"
            (edn-bridge-transcript-footer)))
          (save-window-excursion
            (edn-bridge-test-push "Open")
            (should (equal (buffer-local-value 'edn-bridge-chat--session-id
                                               (window-buffer))
                           session))
            (kill-buffer (window-buffer)))
          (kill-buffer)))
      (with-current-buffer (edn-bridge-chat-buffer)
        (edn-bridge-live-tests-wait-ready)
        (edn-bridge-test-wait
         (string-match-p "^Fix the cart — waits for an approval  \\[Open\\]$"
                         (edn-bridge-transcript-footer)))
        (let ((data (edn-bridge-rpc-call edn-bridge-chat--conn
                                         "list_sessions" nil)))
          (should (seq-some (lambda (slot)
                              (string-match-p "waits for an approval"
                                              (edn-bridge-sessions--annotate
                                               slot)))
                            (plist-get data :sessions))))
        (edn-bridge-test-push "Open")
        (edn-bridge-daemon-tests-see "\\`You\nFix the cart\n\nAssistant\n.*bash")
        (edn-bridge-test-wait edn-bridge-interact--questions)
        (should (equal edn-bridge-chat--session-id session))
        (should-not (string-search "[Open]" (edn-bridge-transcript-footer)))
        (should-not (string-search "[session" (edn-bridge-test-transcript)))
        (edn-bridge-interact-accept)
        (edn-bridge-daemon-tests-see "\n\nEnd\n\\'")))))

(ert-deftest edn-bridge-work-key-answers-only-the-chat-it-is-typed-in ()
  (edn-bridge-daemon-tests-with-daemon
      (concat "{:steps [{:tool-call {:name \"bash\" :arguments {:command \"touch one\"}}}]} "
              "{:steps [{:tool-call {:name \"bash\" :arguments {:command \"touch two\"}}}]} "
              "{:steps [{:delta \"End\"}]} {:steps [{:delta \"End\"}]}")
    (let ((first (edn-bridge-chat-buffer))
          (second nil)
          (open "^Fix the cart — waits for an approval  \\[Open\\]$"))
      (with-current-buffer first
        (edn-bridge-live-tests-wait-ready)
        (edn-bridge-daemon-tests-begin "Fix the cart")
        (edn-bridge-test-wait edn-bridge-interact--questions))
      (setq second (edn-bridge-chat-buffer t))
      (save-window-excursion
        (switch-to-buffer second)
        (edn-bridge-live-tests-wait-ready)
        (edn-bridge-test-wait
         (string-match-p open (edn-bridge-transcript-footer)))
        ;; Without a question of its own, there is nothing to answer.
        (goto-char (point-max))
        (should-error (call-interactively (key-binding (kbd "C-c C-y")))
                      :type 'user-error)
        ;; Its own question is shown, the other one stays one line.
        (edn-bridge-daemon-tests-begin "Paint the shed")
        (edn-bridge-test-wait edn-bridge-interact--questions)
        (should (string-search "touch two" (edn-bridge-test-transcript)))
        (should-not (string-search "touch one" (edn-bridge-test-transcript)))
        (should (string-match-p open (edn-bridge-transcript-footer)))
        (goto-char (point-max))
        (call-interactively (key-binding (kbd "C-c C-y")))
        (edn-bridge-daemon-tests-see "\n\nEnd\n\\'")
        (should (file-exists-p "two"))
        (goto-char (point-max))
        (should-error (call-interactively (key-binding (kbd "C-c C-y")))
                      :type 'user-error)
        ;; The question of the first one waits, and [Open] leads there.
        (should-not (file-exists-p "one"))
        (with-current-buffer first
          (should (= 1 (edn-bridge-interact-pending)))
          (should-not (string-search "touch two" (edn-bridge-test-transcript))))
        (edn-bridge-test-push "Open")
        (should (eq (window-buffer) first))
        (should (get-text-property (point) 'edn-bridge-question))
        (call-interactively (key-binding (kbd "C-c C-y")))
        (edn-bridge-daemon-tests-see "\n\nEnd\n\\'")
        (should (file-exists-p "one"))
        (with-current-buffer second
          (edn-bridge-test-wait
           (not (string-search "[Open]" (edn-bridge-transcript-footer)))))))))

(ert-deftest edn-bridge-work-mode-line-says-who-needs-the-user ()
  (let ((before (list "mine"))
        (global-mode-string nil))
    (setq global-mode-string before)
    (edn-bridge-daemon-tests-with-daemon edn-bridge-daemon-tests-asks
      (save-window-excursion
        (let ((elsewhere (edn-bridge-chat-buffer t))
              (asking (edn-bridge-chat-buffer t))
              (session nil))
          (with-current-buffer elsewhere
            (edn-bridge-test-wait edn-bridge-chat--outlives))
          (with-current-buffer asking
            (edn-bridge-test-wait (edn-bridge-chat-get :phase))
            (edn-bridge-daemon-tests-begin "Fix 100% of it")
            (edn-bridge-test-wait (edn-bridge-work-waiting))
            (setq session edn-bridge-chat--session-id))
          (should (string-match-p (regexp-quote "[edn: Fix 100%% of it?]")
                                  (nth 1 (edn-bridge-work--lighter))))
          (should (equal (car global-mode-string) "mine"))
          (should edn-bridge-work--timer)
          (let ((edn-bridge-work-in-mode-line nil))
            (should (equal (edn-bridge-work--lighter) "")))
          (edn-bridge-attention-next)
          (should (eq (window-buffer) asking))
          ;; Whoever looks at it needs no mark.
          (should (equal (edn-bridge-work--lighter) ""))
          ;; Without its chat, too, one can go there.
          (delete-other-windows)
          (kill-buffer asking)
          (with-current-buffer elsewhere
            (setq edn-bridge-interact--questions nil)
            (edn-bridge-work-ask)
            (edn-bridge-test-wait (edn-bridge-work-waiting)))
          (should edn-bridge-work--timer)
          (edn-bridge-attention-next)
          (should (equal (buffer-local-value 'edn-bridge-chat--session-id
                                             (window-buffer))
                         session)))
        (mapc #'kill-buffer (edn-bridge-chat-buffers))
        (should-not edn-bridge-work--timer)
        (should-not edn-bridge-work--list)
        (should (equal global-mode-string before))))))

(ert-deftest edn-bridge-work-is-not-asked-without-a-daemon ()
  (let ((global-mode-string nil))
    (edn-bridge-live-tests-with-chat "hello.edn"
      (should-not edn-bridge-chat--outlives)
      (should-not edn-bridge-work--timer)
      (should-not edn-bridge-work--asked)
      (should-not global-mode-string))))

;;;; The command

(ert-deftest edn-bridge-daemon-shows-status-and-ends-it ()
  (edn-bridge-daemon-tests-with-chat edn-bridge-daemon-tests-asks
    (edn-bridge-daemon-tests-begin "Fix the cart")
    (edn-bridge-test-wait edn-bridge-interact--questions)
    (save-window-excursion
      (let ((asked nil)
            (answer nil))
        (cl-letf (((symbol-function 'yes-or-no-p)
                   (lambda (question) (push question asked) answer)))
          (cl-flet ((shown () (with-current-buffer "*edn-bridge daemon*"
                                (buffer-string)))
                    (daemon (action) (save-current-buffer
                                       (edn-bridge-daemon action))))
            ;; The chat may show a question before the daemon lists it.
            (edn-bridge-test-wait
             (progn
               (daemon "status")
               (string-match-p "waits for an answer.*Fix the cart" (shown))))
            (should-not asked)
            (daemon "stop now")
            (should (= 1 (length asked)))
            (should (edn-bridge-rpc-live-p edn-bridge-chat--conn))
            (setq answer t)
            ;; Something waits: it is named, and nothing ends.
            (daemon "stop")
            (should (string-search "Fix the cart" (shown)))
            (should (edn-bridge-rpc-live-p edn-bridge-chat--conn))
            (daemon "stop now")
            (edn-bridge-daemon-tests-see "Disconnected: .*\n.*\\[Reconnect\\]")
            (should-not (edn-bridge-rpc-live-p edn-bridge-chat--conn))
            (should-error (daemon "nonsense") :type 'user-error)
            (kill-buffer "*edn-bridge daemon*")))))))

;;;; An evening

(ert-deftest edn-bridge-daemon-evening-goes-on-in-another-emacs ()
  (skip-unless (and edn-bridge-terminal-tests-program
                    (executable-find "tmux")))
  (let* ((process-environment (cons "EDN_BRIDGE_DAEMON=auto"
                                    process-environment))
         (edn-bridge-terminal-tests-socket
          (format "edn-bridge-%d" (emacs-pid)))
         (edn-bridge-terminal-tests-folder
          (file-name-as-directory (make-temp-file "edn-bridge" t)))
         (edn-bridge-live-tests-state
          (expand-file-name "state" edn-bridge-terminal-tests-folder))
         (default-directory (expand-file-name
                             "project/" edn-bridge-terminal-tests-folder)))
    (cl-flet ((wait-for-status
                (regexp)
                (with-temp-buffer
                  (edn-bridge-test-wait
                   (string-match-p regexp
                                   (edn-bridge-daemon-tests-control
                                    "status"))))))
      (unwind-protect
          (progn
            (edn-bridge-terminal-tests-start "evening.edn")
            (edn-bridge-terminal-tests-say "Fix the cart")
            (edn-bridge-terminal-tests-do "Allow once" '("C-c" "C-y")
                                          "bash .*running")
            ;; Emacs is killed in mid turn.
            (signal-process
             (string-to-number
              (edn-bridge-terminal-tests-tmux "display-message" "-p" "-t" "edn"
                                              "#{pane_pid}"))
             'SIGKILL)
            (wait-for-status "(0 clients)\n.*streaming +Fix the cart")
            (with-temp-buffer
              (call-process edn-bridge-live-tests-program nil t nil
                            "--state-dir" edn-bridge-live-tests-state "query"
                            "[{:psi.process/at-work [:psi.at-work/name]}]")
              (should (string-search "Fix the cart" (buffer-string))))
            (write-region "" nil "go" nil 'quiet)
            (wait-for-status "waits for an answer (approve) +Fix the cart")
            (edn-bridge-terminal-tests-start "evening.edn")
            (edn-bridge-terminal-tests-see
             "^Fix the cart — waits for an approval  \\[Open\\]")
            ;; The offer comes to this chat too, and moves the button.
            (edn-bridge-terminal-tests-see "C-c C-p continues ")
            (edn-bridge-terminal-tests-click "\\[Open\\]")
            (edn-bridge-terminal-tests-do
             "You\nFix the cart" "touch two" "Allow once" '("C-c" "C-y")
             "This is the end")
            (should (file-exists-p "two")))
        (edn-bridge-daemon-tests-control "stop" "--now")
        (edn-bridge-terminal-tests-end)))))

(ert-deftest edn-bridge-daemon-question-of-another-session-is-named ()
  (let ((edn-bridge-work--list
         (list (make-edn-bridge-work :id "s-2" :name "Sort the tags"))))
    (cl-flet ((name (id)
                (edn-bridge-interact--name
                 (make-edn-bridge-interact--question :root id :kind "ask"))))
      (should (equal (name "s-2") "Sort the tags — waits for an answer"))
      (should (equal (name "s-3")
                     "The session s-3 — waits for an answer")))))

(provide 'edn-bridge-daemon-tests)

;;; edn-bridge-daemon-tests.el ends here
